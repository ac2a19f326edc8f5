#!/usr/bin/env node
// `npm test`: everything from a fresh clone to the last test, without another step.
import { join } from 'node:path';
import { runWithServers } from './run-with-servers.mjs';
import { toStandardError } from './servers/log.mjs';
import { checkout } from './setup.mjs';

const help = `Usage: npm test [-- [--database mariadb|mysql|any] [arguments for jest]]

Installs the dependencies and builds when that is needed, finds or starts MariaDB or MySQL and Redis, and runs the tests.
Set DATABASE_URL and REDIS_URL to use servers of your own. Everything else goes to jest, for example:
  npm test -- --selectProjects=unit
  npm test -- --database mysql test/integration/launcher.spec.ts
  npm test -- -t 'a promise in plain words'
`;

const jest = [
  '--experimental-vm-modules',
  '--disable-warning=ExperimentalWarning',
  join(checkout, 'node_modules/jest/bin/jest.js'),
  '-c',
  join(checkout, 'test/jest.config.mjs'),
];

/** Takes `--database <kind>` or `--database=<kind>` out of the arguments. */
function takeDatabase(args) {
  const at = args.findIndex((arg) => arg === '--database' || arg.startsWith('--database='));
  if (at === -1) return { database: 'any', rest: args };
  const inline = args[at].includes('=');
  const database = inline ? args[at].slice('--database='.length) : args[at + 1];
  return { database, rest: [...args.slice(0, at), ...args.slice(at + (inline ? 1 : 2))] };
}

const { database, rest } = takeDatabase(process.argv.slice(2));
if (rest.includes('--help')) {
  process.stdout.write(help);
} else if (!['mariadb', 'mysql', 'any'].includes(database)) {
  toStandardError(`test: --database ${database ?? ''} is none of mariadb, mysql, any`);
  process.exitCode = 2;
} else {
  process.exitCode = await runWithServers('test', { database }, process.execPath, [...jest, ...rest]);
}
