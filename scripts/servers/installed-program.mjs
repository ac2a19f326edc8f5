// Finds installed server programs and tells what they are. `mysqld` may be MariaDB's: only its version line knows.
import { spawnSync } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';

// Package managers put servers where a user's PATH does not look: sbin (Debian), libexec (RHEL), keg-only brew formulas.
const furtherFolders = [
  '/usr/sbin',
  '/usr/local/sbin',
  '/usr/libexec',
  '/usr/local/mysql/bin',
  ...['/opt/homebrew', '/usr/local'].flatMap((brew) => [
    `${brew}/bin`,
    ...['mariadb', 'mysql', 'redis', 'valkey'].map((formula) => `${brew}/opt/${formula}/bin`),
  ]),
];

const oldest = { mariadb: [10, 6, 0], mysql: [8, 0, 19] };

/** The path of the first of `names` that is installed, or null. `extra` folders are looked at first. */
export function findProgram(names, extra = []) {
  return findPrograms(names, extra)[0] ?? null;
}

/**
 * An installed database server of the wanted kind ('mariadb', 'mysql' or 'any', where MariaDB comes first) as
 * `{ kind, version, program, install }`, or null. `install` is MariaDB's initialising script, null for MySQL.
 * A server that is older than the package supports (MariaDB 10.6, MySQL 8.0.19) counts as not installed.
 */
export function findDatabase(wanted) {
  for (const program of findPrograms(['mariadbd', 'mysqld'])) {
    const server = describe(program);
    if (server !== null && (wanted === 'any' || wanted === server.kind)) return server;
  }
  return null;
}

/** The path of an installed Redis (or Valkey, which speaks the same protocol), or null. */
export function findRedis() {
  return findProgram(['redis-server', 'valkey-server']);
}

/** The kind of database ('mariadb' or 'mysql') and the plain version ('10.11.19') in a version text of either server. */
export function parseVersion(text) {
  // MariaDB before 11 puts 5.5.5- before its version for the sake of old replicas.
  const version = /\d+\.\d+\.\d+/.exec(text.replace(/^5\.5\.5-/, ''))?.[0] ?? '';
  return { kind: /mariadb/i.test(text) ? 'mariadb' : 'mysql', version };
}

function findPrograms(names, extra = []) {
  const folders = [...extra, ...(process.env.PATH ?? '').split(delimiter).filter(Boolean), ...furtherFolders];
  return names.flatMap((name) => folders.map((folder) => join(folder, name)).filter(isExecutable));
}

function describe(program) {
  const line = spawnSync(program, ['--no-defaults', '--version'], { encoding: 'utf8' }).stdout ?? '';
  const { kind, version } = parseVersion(line.slice(line.indexOf('Ver ')));
  if (version === '' || isOlder(version, oldest[kind])) return null;
  if (kind === 'mysql') return { kind, version, program, install: null };
  const near = [dirname(program), join(dirname(program), '..', 'bin'), join(dirname(program), '..', 'scripts')];
  const install = findProgram(['mariadb-install-db', 'mysql_install_db'], near);
  return install === null ? null : { kind, version, program, install };
}

function isOlder(version, limit) {
  const parts = version.split('.').map(Number);
  const differing = limit.findIndex((part, index) => part !== parts[index]);
  return differing !== -1 && parts[differing] < limit[differing];
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
