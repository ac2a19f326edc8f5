// A MySQL server for machines on which only MariaDB is installed: ../shared/bin/mysql-server beside the checkout, where it
// exists. .ci/run uses the same one.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { checkout } from '../setup.mjs';
import { findWays } from './find-ways.mjs';
import { freePort } from './free-port.mjs';
import { findDatabase } from './installed-program.mjs';

const program = join(checkout, '..', 'shared', 'bin', 'mysql-server');

/**
 * Makes `startServers({ database })` find a server of the kind: 'mariadb', 'mysql', or 'given' for that of DATABASE_URL.
 * Resolves with `{ kind, release() }`, or null where there is none. A MySQL that was started here is named in DATABASE_URL
 * until `release`, which also stops it; one that ran before is not stopped.
 */
export async function databaseForBench(kind, log) {
  if (kind === 'given') return { kind: 'any', release: () => {} };
  if (process.env.DATABASE_URL || findDatabase(kind) !== null) return { kind, release: () => {} };
  if (kind === 'mysql' && existsSync(program)) return sharedMysql(log);
  return canStart(kind) ? { kind, release: () => {} } : null;
}

function canStart(kind) {
  try {
    findWays(kind, false);
    return true;
  } catch {
    return false;
  }
}

async function sharedMysql(log) {
  const running = mysqlServer(['status']);
  const url = running ?? mysqlServer(['start', String(await freePort())]);
  if (url === null) {
    log(`servers: ${program} did not start`);
    return null;
  }
  const stop = () => running === null && mysqlServer(['stop']);
  process.once('exit', stop);
  process.env.DATABASE_URL = url;
  return {
    kind: 'mysql',
    release() {
      delete process.env.DATABASE_URL;
      process.off('exit', stop);
      stop();
    },
  };
}

/** What it prints last, a URL for `start` and `status`; null when it fails. */
function mysqlServer(args) {
  const { status, stdout } = spawnSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });
  return status === 0 ? (stdout.trim().split('\n').at(-1) ?? '') : null;
}
