#!/usr/bin/env node
// `npm run bench`: sets the checkout up, finds or starts the servers, and runs parts of the bench on each database. What a
// part does is in test/bench/parts/<part>.ts; adding such a file adds the part.
import { readdirSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { takeForeground } from './servers/foreground.mjs';
import { toStandardError } from './servers/log.mjs';
import { databaseForBench } from './servers/shared-mysql.mjs';
import { startServers } from './servers.mjs';
import { checkout, installDependencies, requireNode } from './setup.mjs';

const parts = readdirSync(join(checkout, 'test/bench/parts'))
  .filter((file) => file.endsWith('.ts'))
  .map((file) => file.slice(0, -'.ts'.length))
  .sort();

const help = `Usage: npm run bench [-- [part ...] [--database mariadb|mysql] [--quick | --full] [--json file] [--record]]

Parts: ${parts.join(', ')}. Default: all of them, on MariaDB and then on MySQL.

  --database   one of the two only
  --quick      a second per figure, one round: shows that everything works, its figures say nothing
  --full       also what takes long: more connection counts, the other HTTP adapter, larger tables
  --json       writes every single figure to a file
  --record     puts the tables into docs/benchmarks.md

Everything is measured in one run, the peers beside ours and in turns: medians of three rounds. The exit code is 1 when
something was lost, doubled or out of order, and 2 for a wrong argument; a missed target is only printed.

MariaDB, MySQL and Redis are started privately where they are installed, with durable commits. Without an installed MySQL
../shared/bin/mysql-server is used where it exists. DATABASE_URL and REDIS_URL name servers of your own instead.
`;

class UsageError extends Error {}

function parse(args) {
  const options = {
    database: { type: 'string' },
    json: { type: 'string' },
    quick: { type: 'boolean', default: false },
    full: { type: 'boolean', default: false },
    record: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  };
  let parsed;
  try {
    parsed = parseArgs({ args, options, allowPositionals: true });
  } catch (error) {
    throw new UsageError(error.message);
  }
  const { values, positionals } = parsed;
  const unknown = positionals.find((name) => !parts.includes(name));
  if (unknown !== undefined) throw new UsageError(`there is no part '${unknown}'. Parts: ${parts.join(', ')}`);
  if (values.database !== undefined && !['mariadb', 'mysql'].includes(values.database)) {
    throw new UsageError(`--database ${values.database} is none of mariadb, mysql`);
  }
  if (values.quick && values.full) throw new UsageError('--quick and --full exclude each other');
  if (values.quick && values.record)
    throw new UsageError('--record needs figures that mean something: leave out --quick');
  return { ...values, names: positionals.length > 0 ? positionals : parts };
}

/** Runs the parts on one database. Resolves with the exit code; null where there is no such server. */
async function runOn(kind, { names, json, quick, full, record }, foreground) {
  const database = await databaseForBench(kind, toStandardError);
  if (database === null) return null;
  let servers;
  try {
    servers = await startServers({ database: database.kind });
    const typescript = join(checkout, 'test/support/typescript/register.mjs');
    const switches = ['--disable-warning=ExperimentalWarning', '--import', typescript];
    const flags = [quick && '--quick', full && '--full', record && '--record', json && `--json=${resolve(json)}`];
    return await foreground.run(
      process.execPath,
      [...switches, join(checkout, 'test/bench/main.ts'), ...names, ...flags.filter(Boolean)],
      { env: { DATABASE_URL: servers.databaseUrl, REDIS_URL: servers.redisUrl }, onStart: servers.record },
    );
  } finally {
    await servers?.stop();
    database.release();
  }
}

async function main() {
  const asked = parse(process.argv.slice(2));
  if (asked.help) {
    process.stdout.write(help);
    return 0;
  }
  const foreground = takeForeground();
  requireNode();
  await installDependencies(foreground, toStandardError);
  if (asked.json) rmSync(asked.json, { force: true });
  const kinds =
    asked.database !== undefined ? [asked.database] : process.env.DATABASE_URL ? ['given'] : ['mariadb', 'mysql'];
  const codes = [];
  for (const kind of kinds) {
    const code = await runOn(kind, asked, foreground);
    if (code === null) process.stdout.write(`\n${kind}: NOT MEASURED, there is no such server here\n`);
    else codes.push(code);
    if (foreground.exitCode(0) !== 0) break;
  }
  if (codes.length === 0) return 1;
  return foreground.exitCode(codes.find((code) => code !== 0) ?? 0);
}

try {
  process.exitCode = await main();
} catch (error) {
  toStandardError(`bench: ${error.message}`);
  if (error instanceof UsageError) toStandardError('`npm run bench -- --help` tells more');
  process.exitCode = error instanceof UsageError ? 2 : (error.exitCode ?? 1);
}
