import { z } from 'zod';
import { count, type Duration, duration, parseOptions } from '../config/index.js';
import { type KnownIds, MemoryIds, RedisIds, TieredIds } from '../idempotency/index.js';
import { type GivenRedisClient, lookupClient } from '../lease/index.js';

/** Options of `processedCache`. Durations are milliseconds or text such as '30s'. */
export interface ProcessedCacheOptions {
  /** Messages that this process knows. Default 50,000. */
  readonly maxKeys?: number;
  /** How long this process knows a message. Default 5m. */
  readonly ttl?: Duration;
  /** A URL or an ioredis client, which is duplicated, not used: what all processes know. Default: none. */
  readonly redis?: string | GivenRedisClient;
  /** Prefix of the keys in Redis; two applications may share one. Default 'mailroom'. */
  readonly namespace?: string;
  /** How long Redis knows a message. Default 30m. */
  readonly redisTtl?: Duration;
  /** A look-up in Redis that takes longer counts as "not known". Default 30 ms. */
  readonly lookupTimeout?: Duration;
}

const schema = z.strictObject({
  maxKeys: count(1, 10_000_000).default(50_000),
  ttl: duration({ min: 1_000 }).default(300_000),
  redis: z
    .custom<string | GivenRedisClient>(
      (value) =>
        (typeof value === 'string' && /^rediss?:\/\//.test(value)) ||
        typeof (value as { duplicate?: unknown } | null)?.duplicate === 'function',
      { error: 'write a redis:// URL or an ioredis client' },
    )
    .optional(),
  namespace: z.string().min(1).max(64).default('mailroom'),
  redisTtl: duration({ min: 1_000 }).default(1_800_000),
  lookupTimeout: duration({ min: 1, max: 1_000 }).default(30),
});

/**
 * What `processOnce` may ask before the table: memory, then Redis if it is given. It learns of a message when the table
 * has said that it was processed, so nothing that may still be rolled back is in it; slow, frozen or away, it costs a
 * look into the table. An answer can outlive its row: after a failover that lost it. Close it with the application.
 * @throws InvalidOptionsError naming the option
 */
export async function processedCache(options: ProcessedCacheOptions = {}): Promise<KnownIds> {
  const { maxKeys, ttl, redis, namespace, redisTtl, lookupTimeout } = parseOptions(schema, options, 'processedCache');
  const memory = new MemoryIds(maxKeys, ttl);
  if (redis === undefined) return memory;
  const client = await lookupClient(
    redis,
    // Nobody misses it: the table answers.
    () => undefined,
    'processedCache.redis',
    lookupTimeout,
  );
  return new TieredIds(memory, new RedisIds(client, `${namespace}:processed:`, redisTtl));
}
