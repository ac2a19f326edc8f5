import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { opened } from './open-resources.js';

const checkout = fileURLToPath(new URL('../..', import.meta.url));

/** One fenced block of a page. */
export interface CodeBlock {
  /** `ts`, `js`, `sh` ... as written behind the fence; empty without one. */
  readonly language: string;
  /** What the comment in its first line calls it, `main.ts` for `// main.ts`; null without one. */
  readonly name: string | null;
  readonly code: string;
}

/** The text of a file of the checkout, named from its root. */
export function pageText(path: string): string {
  return readFileSync(join(checkout, path), 'utf8');
}

/** The fenced blocks of a Markdown page, in order. */
export function codeBlocks(path: string): CodeBlock[] {
  return [...pageText(path).matchAll(/^```(\w*)\n(.*?)^```$/gms)].map(([, language = '', code = '']) => ({
    language,
    name: /^\/\/ (\S+)$/m.exec(code.slice(0, code.indexOf('\n')))?.[1] ?? null,
    code,
  }));
}

/** A project outside the checkout into which a newcomer has pasted the examples of a page. */
export interface DocProject {
  /** Where a file of the project is. */
  path(name: string): string;
  /** Deletes it. The leak check fails a file that does not. */
  remove(): void;
}

/**
 * Writes blocks into a new project under their names. It has the checkout's packages, and `nestjs-mailroom` with the
 * doors of its package.json, each leading to the source instead of the build.
 */
export function docProject(blocks: readonly CodeBlock[]): DocProject {
  // The real path, as module resolution names the files in it: macOS has a link in the path of its temporary files.
  const folder = realpathSync(mkdtempSync(join(tmpdir(), 'nestjs-mailroom-docs-')));
  const closed = opened({ what: `folder ${folder}`, close: async () => remove() });
  function remove(): void {
    rmSync(folder, { recursive: true, force: true });
    closed();
  }
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }');
  installPackages(join(folder, 'node_modules'));
  for (const { name, code } of blocks) if (name !== null) writeFileSync(join(folder, name), code);
  return { path: (name) => join(folder, name), remove };
}

function installPackages(modules: string): void {
  mkdirSync(modules);
  const installed = readdirSync(join(checkout, 'node_modules')).filter((name) => !name.startsWith('.'));
  for (const name of installed) symlinkSync(join(checkout, 'node_modules', name), join(modules, name));
  const own = join(modules, 'nestjs-mailroom');
  mkdirSync(own);
  for (const name of ['src', 'migrations']) symlinkSync(join(checkout, name), join(own, name));
  const { exports } = JSON.parse(pageText('package.json')) as { exports: Record<string, { default?: string }> };
  const doors = Object.entries(exports).flatMap(([door, { default: built }]) =>
    built === undefined ? [] : [[door, built.replace('./dist/', './').replace(/\.js$/, '.ts')]],
  );
  const manifest = { name: 'nestjs-mailroom', type: 'module', exports: Object.fromEntries(doors) };
  writeFileSync(join(own, 'package.json'), JSON.stringify(manifest));
}
