// What `npm test` and `npm run demo` do before anything else (scripts/setup.mjs), on a small checkout of its own. npm is a
// stand-in that writes down its calls: what the real one does takes half a minute and is seen in every fresh clone.
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type LauncherRun, start } from '../support/launcher/launcher-run.js';

const npm = `const { appendFileSync, copyFileSync, mkdirSync } = require('node:fs');
  const args = process.argv.slice(2);
  appendFileSync('npm-calls', args[0] === 'ci' ? 'ci ' : args.at(-1) + ' ');
  mkdirSync('node_modules', { recursive: true });
  mkdirSync('dist', { recursive: true });
  if (args[0] === 'ci') copyFileSync('package-lock.json', 'node_modules/.package-lock.json');
  process.exit(args[0] === 'ci' ? 0 : Number(process.env.BUILD_CODE ?? 0));`;

let checkout: string;

beforeEach(() => {
  checkout = mkdtempSync(join(tmpdir(), 'setup-spec-'));
  cpSync(fileURLToPath(new URL('../../scripts', import.meta.url)), join(checkout, 'scripts'), { recursive: true });
  for (const folder of ['src', 'migrations']) mkdirSync(join(checkout, folder));
  for (const file of ['nest-cli.json', 'tsconfig.json', 'src/first.ts', 'src/second.ts']) write(file, '{}');
  write('package.json', '{ "engines": { "node": ">=20.19.0" } }');
  lock({ 'node_modules/zod': { version: '4.0.0' } });
  write('npm.js', npm);
});

afterEach(() => rmSync(checkout, { recursive: true }));

function write(path: string, text: string): void {
  writeFileSync(join(checkout, path), text);
}

function lock(packages: Record<string, { version: string; optional?: boolean }>): void {
  write('package-lock.json', JSON.stringify({ packages: { '': {}, ...packages } }));
}

/** Sets the checkout up and returns what npm was called for: 'ci', 'build'. */
async function setUp(env: NodeJS.ProcessEnv = {}): Promise<{ calls: string[]; run: LauncherRun; code: number | null }> {
  write('npm-calls', '');
  const source = `import { takeForeground } from '${checkout}/scripts/servers/foreground.mjs';
    import { build, installDependencies, requireNode } from '${checkout}/scripts/setup.mjs';
    const foreground = takeForeground();
    requireNode();
    await installDependencies(foreground, console.log);
    await build(foreground, console.log);`;
  const npmPath = { npm_execpath: join(checkout, 'npm.js') };
  const run = start(checkout, ['--input-type=module', '-e', source], { ...npmPath, ...env });
  const code = await run.exited;
  const calls = readFileSync(join(checkout, 'npm-calls'), 'utf8').split(' ').filter(Boolean);
  return { calls, run, code };
}

it('installs and builds in a fresh clone, and does neither again', async () => {
  expect(await setUp()).toMatchObject({ calls: ['ci', 'build'], code: 0 });
  expect(await setUp()).toMatchObject({ calls: [], code: 0 });
});

it('installs again when the lockfile names another version', async () => {
  await setUp();
  lock({ 'node_modules/zod': { version: '4.0.1' } });
  expect((await setUp()).calls).toContain('ci');
});

it('does not miss packages that are for other platforms', async () => {
  await setUp();
  lock({
    'node_modules/zod': { version: '4.0.0' },
    'node_modules/swc-elsewhere': { version: '1.0.0', optional: true },
  });
  expect((await setUp()).calls).not.toContain('ci');
});

it('builds again when a source has changed or is gone', async () => {
  await setUp();
  // As many bytes as before.
  write('src/first.ts', '[]');
  expect((await setUp()).calls).toEqual(['build']);
  rmSync(join(checkout, 'src/second.ts'));
  expect((await setUp()).calls).toEqual(['build']);
});

it('stops with the exit code of a failed build, and builds again next time', async () => {
  expect((await setUp({ BUILD_CODE: '3' })).run.output()).toContain('`npm run --silent build` ended with 3.');
  expect((await setUp()).calls).toEqual(['build']);
});

it.each([
  ['99.1.0', 1],
  ['20.19.0', 0],
  ['20.3.9', 0],
])('asked for Node.js %s, it exits with %d here', async (version, expected) => {
  write('package.json', `{ "engines": { "node": ">=${version}" } }`);
  const { code, run } = await setUp();
  expect(code).toBe(expected);
  if (expected === 1) expect(run.output()).toContain('this needs Node.js 99.1.0 or later, but runs on ');
});
