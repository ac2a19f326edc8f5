// What a server says about itself before anyone logs in. No driver is needed, because this runs before `npm install`.
import { connect } from 'node:net';
import { parseVersion } from './installed-program.mjs';

/**
 * The kind and version of the MySQL or MariaDB server at an address, from the greeting that it sends on connect.
 * Rejects when nothing answers within `timeoutMs`, or when the answer is not such a greeting.
 */
export async function databaseAt(host, port, timeoutMs = 5_000) {
  // Packet: length (3 bytes), sequence (1), protocol version 10 (1), then the server's version up to a zero byte.
  const greeting = await exchange(host, port, null, timeoutMs, (bytes) => bytes.length > 5 && bytes.includes(0, 5));
  if (greeting[4] !== 10) throw new Error('its greeting is not that of MySQL or MariaDB');
  return parseVersion(greeting.toString('latin1', 5, greeting.indexOf(0, 5)));
}

/**
 * The version and pid of the Redis at an address; null for each where it wants a password first.
 * Rejects when nothing answers within `timeoutMs`.
 */
export async function redisAt(host, port, timeoutMs = 5_000) {
  const complete = (bytes) => bytes[0] === 0x2d || bytes.includes('\r\n\r\n') || /process_id:\d+\r\n/.test(bytes);
  const info = (await exchange(host, port, 'INFO server\r\n', timeoutMs, complete)).toString('latin1');
  const pid = /process_id:(\d+)/.exec(info)?.[1];
  return { version: /redis_version:(\S+)/.exec(info)?.[1] ?? null, pid: pid === undefined ? null : Number(pid) };
}

/** Resolves when something accepts connections at an address; rejects when nothing does within `timeoutMs`. */
export async function acceptsAt(host, port, timeoutMs = 5_000) {
  await exchange(host, port, null, timeoutMs, null);
}

function exchange(host, port, request, timeoutMs, isComplete) {
  return new Promise((resolve, reject) => {
    let received = Buffer.alloc(0);
    const socket = connect({ host, port });
    const finish = (settle, value) => {
      clearTimeout(timer);
      socket.destroy();
      settle(value);
    };
    const timer = setTimeout(() => finish(reject, new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    socket.on('connect', () => {
      if (isComplete === null) finish(resolve, received);
      else if (request !== null) socket.write(request);
    });
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (isComplete?.(received)) finish(resolve, received);
    });
    socket.on('error', (error) => finish(reject, error));
    socket.on('close', () => finish(reject, new Error('it closed the connection')));
  });
}
