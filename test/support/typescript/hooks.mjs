// Node's module hooks: './x.js' in a .ts file of the checkout is './x.ts', and .ts is compiled by swc.
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { transform } from '@swc/core';
import { swcOptions } from './swc-options.mjs';

export async function resolve(specifier, context, next) {
  const fromSource = context.parentURL?.endsWith('.ts') === true && !context.parentURL.includes('/node_modules/');
  if (fromSource && /^\.{1,2}\/.*\.js$/.test(specifier)) {
    try {
      return await next(specifier.replace(/\.js$/, '.ts'), context);
    } catch (error) {
      if (error.code !== 'ERR_MODULE_NOT_FOUND') throw error;
    }
  }
  return next(specifier, context);
}

export async function load(url, context, next) {
  if (!url.endsWith('.ts') || url.includes('/node_modules/')) return next(url, context);
  const filename = fileURLToPath(url);
  const { code } = await transform(await readFile(filename, 'utf8'), { ...swcOptions, filename });
  return { format: 'module', source: code, shortCircuit: true };
}
