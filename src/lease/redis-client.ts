import { Cluster, Redis, type RedisOptions } from 'ioredis';

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
 * without a listener would end the process.
 */
export function leaseClient(given: string | Redis | Cluster, onError: (error: Error) => void): Redis | Cluster {
  const client =
    typeof given === 'string'
      ? new Redis(given, leaseSafe)
      : given instanceof Cluster
        ? given.duplicate([], { redisOptions: leaseSafe, enableOfflineQueue: false })
        : given.duplicate(leaseSafe);
  client.on('error', onError);
  return client;
}
