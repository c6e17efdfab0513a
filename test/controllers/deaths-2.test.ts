import { diesAnywhere } from './deaths-anywhere.ts';

diesAnywhere(1, 2);
