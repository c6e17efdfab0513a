/** Writes every program's folder below build/, for builds of images that bring their own Node. */
import { bundle, programs } from './bundle.ts';

for (const program of Object.values(programs)) console.log(await bundle(program));
