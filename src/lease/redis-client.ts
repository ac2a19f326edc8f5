import type { Cluster, Redis, RedisOptions } from 'ioredis';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';

/** An ioredis client, `Redis` or `Cluster`, as far as it is needed here; its own types need ioredis to be installed. */
export interface GivenRedisClient {
  duplicate(...args: never[]): unknown;
  readonly isCluster: boolean;
}

/** No command may take longer: a frozen Redis must be told from a slow one well before a lease runs out. */
export const redisCommandTimeoutMs = 700;

/**
 * ioredis as a lease needs it. Its defaults queue commands while offline, send them again after a reconnect and wait
 * without limit, which leaves a zombie lease behind when Redis comes back.
 */
const leaseSafe: RedisOptions = {
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  commandTimeout: redisCommandTimeoutMs,
  socketTimeout: 1_000,
  connectTimeout: 1_000,
  retryStrategy: (times) => Math.min(2_000, 100 * times),
  // After a failover the old primary answers READONLY: reconnect, since the address may lead elsewhere by then.
  reconnectOnError: (error) => error.message.startsWith('READONLY'),
};

/**
 * A client of our own for a URL or a given client, which stays untouched. Errors are reported to `onError`, a client
 * without a listener would end the process. ioredis is loaded here, since who leases in the database need not install it.
 * @throws InvalidOptionsError when a URL is given and ioredis is not installed
 */
export async function leaseClient(
  given: string | GivenRedisClient,
  onError: (error: Error) => void,
): Promise<Redis | Cluster> {
  return ownClient(given, onError, leaseSafe, ['inbox.lease.redis', "set lease.backend to 'database'"]);
}

/**
 * A client of our own for look-ups that nobody needs: a command rejects after `timeoutMs`, and at once while it is offline.
 * @param option path of the option that names Redis, for the error when ioredis is not installed
 */
export function lookupClient(
  given: string | GivenRedisClient,
  onError: (error: Error) => void,
  option: string,
  timeoutMs: number,
): Promise<Redis | Cluster> {
  return ownClient(given, onError, { ...leaseSafe, commandTimeout: timeoutMs }, [option, 'leave the option out']);
}

async function ownClient(
  given: string | GivenRedisClient,
  onError: (error: Error) => void,
  settings: RedisOptions,
  install: readonly [string, string],
): Promise<Redis | Cluster> {
  const client =
    typeof given !== 'string' && given.isCluster
      ? (given as unknown as Cluster).duplicate([], { redisOptions: settings, enableOfflineQueue: false })
      : await create(given, settings, install);
  client.on('error', onError);
  return client;
}

/**
 * A client of our own for publish and subscribe, with the same bounds; who subscribes says after each connect what to.
 * @param option path of the option that names Redis, for the error when ioredis is not installed
 */
export async function pubSubClient(
  given: string | GivenRedisClient,
  onError: (error: Error) => void,
  option: string,
): Promise<Redis> {
  const client = await create(given, { ...leaseSafe, autoResubscribe: false }, [option, 'leave the option out']);
  client.on('error', onError);
  return client;
}

async function create(
  given: string | GivenRedisClient,
  settings: RedisOptions,
  [option, orElse]: readonly [string, string],
): Promise<Redis> {
  if (typeof given !== 'string') return (given as unknown as Redis).duplicate(settings);
  const { Redis: Client } = await loadIoredis(option, orElse);
  return new Client(given, settings);
}

async function loadIoredis(option: string, orElse: string) {
  try {
    return await import('ioredis');
  } catch {
    throw new InvalidOptionsError(option, undefined, `install ioredis (npm install ioredis), or ${orElse}`);
  }
}
