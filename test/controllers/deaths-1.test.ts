import { diesAnywhere } from './deaths-anywhere.ts';

diesAnywhere(0, 2);
