// Servers out of docker-compose.yml, each as a project of its own, so that it never meets a project that the user started.
import { spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { findProgram } from './installed-program.mjs';
import { createFolder, recordCompose, removeFolder } from './private-folder.mjs';
import { finished, startProcess } from './private-process.mjs';
import { databaseAt, redisAt } from './probe.mjs';

const file = fileURLToPath(new URL('../../docker-compose.yml', import.meta.url));
const password = 'mailroom';
const insidePort = { mariadb: 3306, mysql: 3306, redis: 6379 };

/** Whether docker's compose plugin is installed and its daemon answers within ten seconds. */
export function composeAnswers() {
  if (findProgram(['docker']) === null || !existsSync(file)) return false;
  return [
    ['compose', 'version'],
    ['info', '--format', '{{.ServerVersion}}'],
  ].every((args) => spawnSync('docker', args, { stdio: 'ignore', timeout: 10_000 }).status === 0);
}

/**
 * Starts one service ('mariadb', 'mysql' or 'redis') of docker-compose.yml on a free loopback port and waits until its
 * health check passes. The first time, docker fetches the image. Returns `{ name, version, address, url, folder }`.
 */
export async function startComposeServer(service) {
  const folder = createFolder(`compose-${service}`);
  try {
    const project = `nestjs-mailroom-${randomBytes(6).toString('hex')}`;
    recordCompose(folder, { project, file });
    const compose = ['compose', '-p', project, '-f', file];
    // An empty port lets docker choose a free one.
    const env = { MARIADB_PORT: '', MYSQL_PORT: '', REDIS_PORT: '', MAILROOM_ROOT_PASSWORD: password };
    const args = [...compose, 'up', '--detach', '--wait', service];
    const up = await startProcess({ folder, program: 'docker', args, env, logName: 'compose.log', mark: project });
    await finished(service, up, 600_000);
    const address = publishedAddress(compose, service);
    return { name: service, ...(await describe(service, address)), address, folder };
  } catch (error) {
    removeFolder(folder);
    throw error;
  }
}

function publishedAddress(compose, service) {
  const args = [...compose, 'port', service, String(insidePort[service])];
  const { stdout, stderr } = spawnSync('docker', args, { encoding: 'utf8', timeout: 10_000 });
  const address = stdout?.trim() ?? '';
  if (!/:\d+$/.test(address)) throw new Error(`docker does not tell the port of ${service}: ${stderr?.trim()}`);
  return address;
}

async function describe(service, address) {
  const [host, port] = address.split(':');
  if (service === 'redis') {
    return { version: (await redisAt(host, Number(port))).version, url: `redis://${address}` };
  }
  const { version } = await databaseAt(host, Number(port));
  return { version, url: `mysql://root:${password}@${address}/` };
}
