import { join } from 'node:path';
import { onFreePort, PortTakenError } from './free-port.mjs';
import { createFolder, removeFolder } from './private-folder.mjs';
import { ready, startProcess } from './private-process.mjs';
import { redisAt } from './probe.mjs';

/**
 * Starts an installed Redis on a free port of 127.0.0.1 only, without persistence: leases are not meant to outlive it.
 * Returns `{ name, version, address, url, folder }`; throws with the server's log. `choosePort` is for tests.
 */
export async function startPrivateRedis(program, choosePort) {
  const folder = createFolder('redis');
  try {
    const { port, version } = await onFreePort((candidate) => serve(program, folder, candidate), choosePort);
    const address = `127.0.0.1:${port}`;
    return { name: 'redis', version, address, url: `redis://${address}`, folder };
  } catch (error) {
    removeFolder(folder);
    throw error;
  }
}

async function serve(program, folder, port) {
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', join(folder, 'data')];
  args.push('--save', '', '--appendonly', 'no', '--daemonize', 'no');
  // Redis rewrites its command line to its address, so the port is what stays in it.
  const child = await startProcess({ folder, program, args, logName: 'server.log', mark: String(port) });
  let version = null;
  await ready('redis', child, async () => {
    if (child.ended() && /address already in use/i.test(child.log())) throw new PortTakenError(`port ${port} is taken`);
    const answer = await redisAt('127.0.0.1', port, 1_000).catch(() => null);
    version = answer?.version ?? null;
    // Another server may answer at this port while ours fails to bind it.
    return answer?.pid === child.pid;
  });
  return { port, version };
}
