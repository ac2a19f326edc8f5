import { z } from 'zod';
import { count, type Duration, duration, flag } from '../config/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { GivenRedisClient } from '../lease/index.js';

/** Caches in front of the unique key. Without them the table alone answers duplicates. */
export interface IdempotencyOptions {
  /** 'lru': in this process. 'lru+redis': then in Redis, shared by all instances. False: none. Default false. */
  readonly cache?: 'lru' | 'lru+redis' | false;
  /**
   * The door answers duplicates from the cache. Such an answer can outlive its row: after a failover that lost it, or a
   * purge. Default false.
   */
  readonly door?: boolean;
  /** Keys in this process. Default 50,000. */
  readonly maxKeys?: number;
  /** How long this process knows a key. Default 5m. */
  readonly ttl?: Duration;
  /** How long Redis knows a key. Default 30m. */
  readonly redisTtl?: Duration;
  /** A look-up in Redis that takes longer counts as "not known". Default 30 ms. */
  readonly lookupTimeout?: Duration;
  /** A URL or an ioredis client, which is duplicated, not used. Default: the first of `lease.redis`. */
  readonly redis?: string | GivenRedisClient;
}

export const idempotencySchema = z.strictObject({
  cache: z
    .enum(['lru', 'lru+redis'], { error: "write 'lru', 'lru+redis' or false" })
    .or(z.literal(false, "write 'lru', 'lru+redis' or false"))
    .default(false),
  door: flag.default(false),
  maxKeys: count(1, 10_000_000).default(50_000),
  ttl: duration({ min: 1_000 }).default(300_000),
  redisTtl: duration({ min: 1_000 }).default(1_800_000),
  lookupTimeout: duration({ min: 1, max: 1_000 }).default(30),
  redis: z
    .union(
      [
        z.string().regex(/^rediss?:\/\//),
        z.custom<GivenRedisClient>(
          (value) => typeof (value as { duplicate?: unknown } | null)?.duplicate === 'function',
        ),
      ],
      { error: 'write a redis:// URL or an ioredis client' },
    )
    .optional(),
});

export type ResolvedIdempotency = z.output<typeof idempotencySchema>;

/** @throws InvalidOptionsError for options that contradict each other */
export function checkIdempotency(
  options: ResolvedIdempotency,
  leaseClients: readonly (string | GivenRedisClient)[],
): ResolvedIdempotency {
  const { cache, door, redis } = options;
  if (door && cache === false)
    throw wrong('door', door, "write cache: 'lru' or cache: 'lru+redis' beside it, or leave it out");
  if (!door && cache !== false)
    throw wrong('cache', cache, 'nothing uses it: write door: true beside it if the door may answer from it');
  if (cache !== 'lru+redis') {
    if (redis !== undefined) throw wrong('redis', 'a client', "write cache: 'lru+redis' beside it, or leave it out");
    return options;
  }
  const client = redis ?? leaseClients[0];
  if (client === undefined) throw wrong('redis', undefined, 'write a redis:// URL or an ioredis client');
  return { ...options, redis: client };
}

function wrong(name: string, value: unknown, remedy: string): InvalidOptionsError {
  return new InvalidOptionsError(`inbox.idempotency.${name}`, value, remedy);
}
