import { mkdirSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { onFreePort, PortTakenError } from './free-port.mjs';
import { createFolder, removeFolder } from './private-folder.mjs';
import { finished, ready, startProcess } from './private-process.mjs';

const portTaken = /address already in use|bind on tcp\/ip port/i;

/**
 * Starts an installed MariaDB or MySQL (see findDatabase) on a fresh data folder, on a free port of 127.0.0.1 only, with
 * user root and no password. The machine's own configuration is not read. Commits are durable, as in production, because
 * the package warns otherwise. Returns `{ name, version, address, url, folder, pid }`; throws with the server's log.
 */
export async function startPrivateDatabase(server) {
  const folder = createFolder(server.kind);
  try {
    await initialise(server, folder);
    const { port, pid } = await onFreePort((candidate) => serveDatabase(server, folder, candidate));
    const address = `127.0.0.1:${port}`;
    return { name: server.kind, version: server.version, address, url: `mysql://root@${address}/`, folder, pid };
  } catch (error) {
    removeFolder(folder);
    throw error;
  }
}

/**
 * Starts the server on the data of its private folder; also again, after it ended. Resolves with `{ port, pid }` when it
 * accepts connections. Throws {@link PortTakenError} when something else listens at the port.
 */
export async function serveDatabase(server, folder, port) {
  const args = [
    '--no-defaults',
    ...ownFolders(folder),
    ...asUser(),
    `--port=${port}`,
    '--bind-address=127.0.0.1',
    // Relative to the data folder: a full path could be longer than a socket's name may be.
    '--socket=db.sock',
    '--pid-file=db.pid',
    '--innodb-flush-log-at-trx-commit=1',
    '--sync-binlog=1',
    '--max-connections=400',
    '--character-set-server=utf8mb4',
    ...(server.kind === 'mysql' ? ['--mysqlx=0', '--secure-file-priv=NULL'] : []),
  ];
  const child = await startProcess({ folder, program: server.program, args, logName: 'server.log', mark: folder });
  // The log and not the port is asked: at this port somebody else's server may answer while ours fails to bind it.
  await ready(server.kind, child, () => {
    const log = child.log();
    if (child.ended() && portTaken.test(log)) throw new PortTakenError(`port ${port} is taken`);
    return log.includes('ready for connections');
  });
  return { port, pid: child.pid };
}

async function initialise(server, folder) {
  const data = [...ownFolders(folder), ...asUser()];
  const command =
    server.install === null
      ? { program: server.program, args: ['--no-defaults', '--initialize-insecure', ...data] }
      : { program: server.install, args: ['--no-defaults', '--auth-root-authentication-method=normal', ...data] };
  const child = await startProcess({ folder, ...command, logName: 'initialise.log', mark: folder });
  await finished(server.kind, child);
}

/** A MariaDB server that starts deletes the temporary tables that it finds in its folder for them: other servers' too. */
export function ownFolders(folder) {
  const temporary = join(folder, 'tmp');
  mkdirSync(temporary, { recursive: true });
  return [`--datadir=${join(folder, 'data')}`, `--tmpdir=${temporary}`];
}

function asUser() {
  // Both servers refuse to run as root unless they are told to by name.
  return process.getuid?.() === 0 ? [`--user=${userInfo().username}`] : [];
}
