import { readFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { findDatabase } from '../../scripts/servers/installed-program.mjs';
import { ownFolders, startPrivateDatabase as startDatabase } from '../../scripts/servers/private-database.mjs';
import { removeFolder } from '../../scripts/servers/private-folder.mjs';
import { ready, startProcess } from '../../scripts/servers/private-process.mjs';
import { type Flavour, testServerFlavour } from './database.js';
import { type PrivateServer, privateServer } from './private-server.js';

export interface PrivateDatabase extends PrivateServer {
  readonly flavour: Flavour;
}

/**
 * Starts a database server that only this test file uses, with durable commits, user root and no password. A start takes
 * some seconds. Restarts keep the data. Create databases on it with `createTestDatabase(name, { serverUrl: server.url })`.
 *
 * @param wanted default: what is installed, MariaDB where both are. 'like-the-tests': the kind that the tests run on, where
 *   that is installed
 * @throws Error when no such server is installed
 */
export async function startPrivateDatabase(
  wanted: Flavour | 'any' | 'like-the-tests' = 'any',
): Promise<PrivateDatabase> {
  const installed =
    wanted === 'like-the-tests'
      ? (findDatabase(await testServerFlavour()) ?? findDatabase('any'))
      : findDatabase(wanted);
  if (installed === null) throw new Error(`startPrivateDatabase: no ${wanted} server is installed here`);
  const { url, folder } = await startDatabase(installed);
  const port = Number(new URL(url).port);
  const server = privateServer({
    name: installed.kind,
    url,
    port,
    firstPid: Number(readFileSync(join(folder, 'data', 'db.pid'), 'utf8')),
    restart: () => serveAgain(installed.kind, installed.program, folder, port),
    remove: () => removeFolder(folder),
  });
  return Object.defineProperties(
    { flavour: installed.kind } as PrivateDatabase,
    Object.getOwnPropertyDescriptors(server),
  );
}

async function serveAgain(kind: Flavour, program: string, folder: string, port: number): Promise<number> {
  const args = [
    '--no-defaults',
    ...ownFolders(folder),
    ...(process.getuid?.() === 0 ? [`--user=${userInfo().username}`] : []),
    `--port=${port}`,
    '--bind-address=127.0.0.1',
    '--socket=db.sock',
    '--pid-file=db.pid',
    '--innodb-flush-log-at-trx-commit=1',
    '--sync-binlog=1',
    '--max-connections=400',
    '--character-set-server=utf8mb4',
    ...(kind === 'mysql' ? ['--mysqlx=0', '--secure-file-priv=NULL'] : []),
  ];
  // A log of its own: that of the life before already says "ready for connections".
  const logName = `restart-${Date.now()}.log`;
  const child = await startProcess({ folder, program, args, logName, mark: folder });
  await ready(kind, child, () => child.log().includes('ready for connections'));
  return child.pid;
}
