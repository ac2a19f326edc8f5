#!/usr/bin/env node
// Finds or starts the servers that the demo and the tests need: MariaDB or MySQL, and Redis. It needs nothing but Node.js.
//
// Order of finding, for each server by itself (scripts/servers/ holds one file per step):
//   1. DATABASE_URL and REDIS_URL when set: greeted, never touched (given-server.mjs)
//   2. installed mariadbd, mysqld and redis-server: started privately (private-database.mjs, private-redis.mjs)
//   3. docker compose when its daemon answers: a project of its own (compose-server.mjs)
//   4. on Debian and Ubuntu as root: apt-get install, then as 2 (apt-install.mjs)
//   5. else one message that says what to install (find-ways.mjs)
//
// A private server lives in a folder under the system's folder for temporary files, listens on 127.0.0.1 only, and ends
// with this process. What a killed launcher left is ended and deleted by the next start (sweep.mjs). Nothing else is ever
// ended or deleted: private-folder.mjs tells how that is known.
import { realpathSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findWays, installPackages } from './servers/find-ways.mjs';
import { takeForeground } from './servers/foreground.mjs';
import { toStandardError } from './servers/log.mjs';
import { recordProcess, removeFolder } from './servers/private-folder.mjs';
import { sweep } from './servers/sweep.mjs';

const help = `Usage:
  node scripts/servers.mjs run [--database mariadb|mysql|any] [--only database|redis] -- <command> [arguments]
      Starts the servers, runs the command with DATABASE_URL and REDIS_URL, stops the servers, exits with its code.
      --database any (the default) takes MariaDB where both are installed.
  node scripts/servers.mjs sweep
      Ends and deletes what killed runs left behind. Every start does this too.

Servers are taken from DATABASE_URL and REDIS_URL when set, else from installed programs (started privately, on free
ports of 127.0.0.1, on data that is deleted at the end), else from docker compose, else from apt-get (Debian, as root).
`;

const databases = ['mariadb', 'mysql', 'any', 'none'];

/**
 * Finds or starts the servers and resolves when they answer. `database` is 'mariadb', 'mysql', 'any' (default) or 'none';
 * `redis` is true by default; `log` takes lines of text (default: standard error).
 * Resolves with `{ databaseUrl, redisUrl, flavour, summary, record(pid), stop() }`. A URL is null for a server not asked
 * for; `flavour` is 'mariadb', 'mysql' or null. `record` makes a process group end with the servers if this process is
 * killed. `stop` ends what was started here and may be called twice; an exit of this process does the same.
 * Rejects with one message for the user when there is no server and no way to one; nothing is left running then.
 */
export async function startServers({ database = 'any', redis = true, log = toStandardError } = {}) {
  const startedAt = Date.now();
  const swept = sweep(log);
  if (swept > 0) log(`servers: cleaned up ${count(swept, 'folder')} of killed runs`);

  const servers = await openAll(findWays(database, redis), log);
  const stop = async () => closeAll(servers);

  const summary = summarise(servers, Date.now() - startedAt);
  log(summary);
  const databaseServer = servers.find((server) => server.name !== 'redis');
  return {
    databaseUrl: databaseServer?.url ?? null,
    redisUrl: servers.find((server) => server.name === 'redis')?.url ?? null,
    flavour: databaseServer?.name ?? null,
    summary,
    record: (pid) => {
      for (const server of servers) if (server.folder !== undefined) recordProcess(server.folder, pid, '');
    },
    stop,
  };
}

async function openAll(ways, log) {
  // Given servers first: a wrong URL is told before anything is installed or started.
  const given = await Promise.all(ways.flatMap((way) => (way.greet === undefined ? [] : [way.greet()])));
  installPackages(ways, log);
  const startable = ways.filter((way) => way.start !== undefined);
  const settled = await Promise.allSettled(startable.map((way) => way.start(log)));
  const started = settled.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const failed = settled.find((result) => result.status === 'rejected');
  if (failed === undefined) return [...given, ...started];
  closeAll(started);
  throw failed.reason;
}

function closeAll(servers) {
  for (const server of servers) if (server.folder !== undefined) removeFolder(server.folder);
}

function summarise(servers, elapsedMs) {
  const named = servers.map((server) => {
    const given = server.variable === undefined ? '' : ` (${server.variable})`;
    return `${[server.name, server.version].filter(Boolean).join(' ')} on ${server.address}${given}`;
  });
  const anyStarted = servers.some((server) => server.folder !== undefined);
  const started = anyStarted ? `, private, started in ${(elapsedMs / 1000).toFixed(1)} s` : ', left as they are';
  return `servers: ${named.join(' and ')}${started}`;
}

function count(number, noun) {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

function parseArguments(args) {
  const options = { database: 'any', redis: true };
  const words = [...args];
  while (words.length > 0 && words[0] !== '--') {
    const [name, value = words.shift()] = words.shift().split(/=(.*)/s);
    if (name === '--database' && databases.includes(value)) options.database = value;
    else if (name === '--only' && value === 'redis') options.database = 'none';
    else if (name === '--only' && value === 'database') options.redis = false;
    else return null;
  }
  const [program, ...rest] = words.slice(1);
  return program === undefined ? null : { options, program, rest };
}

async function main([action, ...args]) {
  if (action === '--help' || action === '-h') {
    process.stdout.write(help);
    return 0;
  }
  if (action === 'sweep' && args.length === 0) {
    const swept = sweep(toStandardError);
    toStandardError(
      swept === 0 ? 'servers: nothing to clean up' : `servers: cleaned up ${count(swept, 'folder')} of killed runs`,
    );
    return 0;
  }
  const asked = action === 'run' ? parseArguments(args) : null;
  if (asked === null) {
    process.stderr.write(help);
    return 2;
  }
  const foreground = takeForeground();
  const servers = await startServers(asked.options);
  const env = Object.fromEntries(
    [
      ['DATABASE_URL', servers.databaseUrl],
      ['REDIS_URL', servers.redisUrl],
    ].filter(([, url]) => url !== null),
  );
  const code = await foreground.run(asked.program, asked.rest, { env, onStart: servers.record });
  await servers.stop();
  return code;
}

if (process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  try {
    process.exitCode = await main(process.argv.slice(2));
  } catch (error) {
    toStandardError(`servers: ${error.message}`);
    process.exitCode = 1;
  }
}
