// What `npm test` and `npm run demo` do first: check Node.js, install the dependencies, build. Each is skipped when it is
// done already. Nothing here needs a dependency, because it runs in a fresh clone.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The folder of the checkout. */
export const checkout = fileURLToPath(new URL('..', import.meta.url));

const builtFrom = join(checkout, 'dist', '.built-from');
const sources = ['src', 'migrations', 'package.json', 'package-lock.json', 'nest-cli.json', 'tsconfig.json'];

/** Thrown when a step of the set-up fails; `exitCode` is that of the failed command. */
export class SetupError extends Error {
  constructor(message, exitCode) {
    super(message);
    this.exitCode = exitCode;
  }
}

/** Throws a {@link SetupError} that says what to do when this Node.js is older than package.json asks for. */
export function requireNode() {
  const wanted = readJson('package.json').engines.node.replace('>=', '');
  if (compareVersions(process.versions.node, wanted) >= 0) return;
  throw new SetupError(
    `this needs Node.js ${wanted} or later, but runs on ${process.versions.node}. See https://nodejs.org`,
    1,
  );
}

/**
 * Installs exactly what package-lock.json names, unless node_modules holds that already. Runs `npm ci` in the given
 * foreground (see servers/foreground.mjs), its output on standard error. Throws a {@link SetupError} when that fails.
 */
export async function installDependencies(foreground, log) {
  if (isInstalled()) return;
  log('setup: installing dependencies (npm ci)');
  await npm(foreground, ['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']);
}

/** Builds into dist, unless the last build here was from the same sources. Output and errors as above. */
export async function build(foreground, log) {
  const stamp = stampOfSources();
  if (readOr(builtFrom, '') === stamp) return;
  log('setup: building (npm run build)');
  await npm(foreground, ['run', '--silent', 'build']);
  writeFileSync(builtFrom, stamp);
}

async function npm(foreground, args) {
  // npm tells its scripts where it is itself; a different npm in PATH could disagree with the lockfile.
  const npmScript = process.env.npm_execpath ?? '';
  const [program, before] = npmScript.endsWith('.js') ? [process.execPath, [npmScript]] : ['npm', []];
  const code = await foreground.run(program, [...before, ...args], {
    // Standard output belongs to the command that all this is for: `npm run demo -- --json` prints JSON there.
    stdio: ['ignore', 2, 2],
    cwd: checkout,
  });
  // A signal stops the set-up, even when npm itself made a success of it.
  const outcome = foreground.exitCode(code);
  if (outcome !== 0) throw new SetupError(`\`npm ${args.slice(0, 3).join(' ')}\` ended with ${outcome}.`, outcome);
}

function isInstalled() {
  const installed = JSON.parse(readOr(join(checkout, 'node_modules', '.package-lock.json'), '{}')).packages ?? {};
  // Packages for other platforms are in the lockfile and not in node_modules; they are the optional ones.
  return Object.entries(readJson('package-lock.json').packages).every(
    ([path, { version, optional }]) => path === '' || optional || installed[path]?.version === version,
  );
}

function stampOfSources() {
  const hash = createHash('sha256');
  for (const path of sources.flatMap((source) => filesUnder(join(checkout, source)))) {
    const { size, mtimeMs } = statSync(path);
    hash.update(`${path} ${size} ${mtimeMs}\n`);
  }
  return hash.digest('hex');
}

function filesUnder(path) {
  if (!statSync(path).isDirectory()) return [path];
  return readdirSync(path)
    .sort()
    .flatMap((name) => filesUnder(join(path, name)));
}

function compareVersions(left, right) {
  const parts = right.split('.').map(Number);
  const differing = left.split('.').map((part, index) => Number(part) - parts[index]);
  return differing.find((difference) => difference !== 0) ?? 0;
}

function readJson(name) {
  return JSON.parse(readFileSync(join(checkout, name), 'utf8'));
}

function readOr(path, otherwise) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return otherwise;
  }
}
