import { aptInstall, canAptInstall } from './apt-install.mjs';
import { composeAnswers, startComposeServer } from './compose-server.mjs';
import { givenDatabase, givenRedis } from './given-server.mjs';
import { findDatabase, findRedis } from './installed-program.mjs';
import { startPrivateDatabase } from './private-database.mjs';
import { startPrivateRedis } from './private-redis.mjs';

/**
 * How to come to each wanted server, in the order that servers.mjs tells. Nothing is started yet. A way is `{ greet }` for a
 * given server, else `{ start, packageName }`, where `packageName` must be installed first if it is there.
 * Throws what to install when there is no way.
 */
export function findWays(database, redis) {
  const wanted = [
    ...(database === 'none' ? [] : [{ what: database === 'mysql' ? 'MySQL' : 'MariaDB', way: databaseWay(database) }]),
    ...(redis ? [{ what: 'Redis', way: redisWay() }] : []),
  ];
  const lacking = wanted.filter(({ way }) => way === null).map(({ what }) => what);
  if (lacking.length > 0) {
    const what = `found no ${lacking.join(' and no ')}, and no way to start one.`;
    throw new Error(`${what} ${whatToInstall(database === 'mysql')}`);
  }
  return wanted.map(({ way }) => way);
}

/** Installs the packages that ways ask for, if any. Throws what to install by hand when that fails. */
export function installPackages(ways, log) {
  const packages = ways.flatMap((way) => way.packageName ?? []);
  if (packages.length === 0) return;
  log(`servers: installing ${packages.join(' and ')} with apt-get`);
  try {
    aptInstall(packages);
  } catch (cause) {
    throw new Error(`${cause.message}\n${whatToInstall(packages.includes('mysql-server'))}`, { cause });
  }
}

function databaseWay(wanted) {
  const url = process.env.DATABASE_URL;
  if (url) return { greet: () => givenDatabase(url, wanted) };
  const installed = findDatabase(wanted);
  if (installed !== null) return { start: () => startPrivateDatabase(installed) };
  const kind = wanted === 'any' ? 'mariadb' : wanted;
  if (composeAnswers()) return { start: (log) => fromDocker(kind, log) };
  if (!canAptInstall()) return null;
  return {
    packageName: `${kind}-server`,
    start: () => startPrivateDatabase(orThrow(findDatabase(kind), `${kind}-server`)),
  };
}

function redisWay() {
  const url = process.env.REDIS_URL;
  if (url) return { greet: () => givenRedis(url) };
  const installed = findRedis();
  if (installed !== null) return { start: () => startPrivateRedis(installed) };
  if (composeAnswers()) return { start: (log) => fromDocker('redis', log) };
  if (!canAptInstall()) return null;
  return { packageName: 'redis-server', start: () => startPrivateRedis(orThrow(findRedis(), 'redis-server')) };
}

function fromDocker(service, log) {
  log(`servers: starting ${service} with docker compose (the first time, docker fetches its image)`);
  return startComposeServer(service);
}

function orThrow(found, packageName) {
  if (found === null) throw new Error(`the package ${packageName} brought no server that is new enough.`);
  return found;
}

function whatToInstall(mysql) {
  const debian = mysql
    ? '  Debian, Ubuntu   mysql-server from https://dev.mysql.com/downloads/repo/apt/, and apt-get install redis-server'
    : '  Debian, Ubuntu   sudo apt-get install mariadb-server redis-server';
  return [
    'Do one of these, then run it again:',
    debian,
    `  macOS            brew install ${mysql ? 'mysql' : 'mariadb'} redis`,
    '  Docker           start Docker, with its compose plugin',
    '  your own         DATABASE_URL=mysql://user:password@host:3306/ REDIS_URL=redis://host:6379',
    'Supported are MariaDB 10.6 and later, MySQL 8.0.19 and later.',
  ].join('\n');
}
