// `node --import <this file> child.ts` runs TypeScript of the checkout as jest does. child.ts starts test children with it.
import { register } from 'node:module';

register(new URL('./hooks.mjs', import.meta.url));
