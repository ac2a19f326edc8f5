import { type KnownIds, MemoryIds, RedisIds, TieredIds } from '../idempotency/index.js';
import { lookupClient } from '../lease/index.js';
import type { ResolvedIdempotency } from './idempotency-options.js';

/** What the door remembers of keys; null unless that was chosen. */
export async function doorCache(
  { cache, door, maxKeys, ttl, redisTtl, lookupTimeout, redis }: ResolvedIdempotency,
  namespace: string,
  onError: (error: Error) => void,
): Promise<KnownIds | null> {
  if (!door || cache === false) return null;
  const memory = new MemoryIds(maxKeys, ttl);
  if (cache === 'lru' || redis === undefined) return memory;
  const client = await lookupClient(redis, onError, 'inbox.idempotency.redis', lookupTimeout);
  return new TieredIds(memory, new RedisIds(client, `${namespace}:known:`, redisTtl));
}
