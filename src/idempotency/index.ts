/**
 * What is known of keys that were stored before, without asking the table.
 *
 *   find -> memory (this process) -> Redis (all instances, 30 ms) -> null: the table decides
 *   remember: after the commit only
 *
 * The unique key of the table is the authority: a cache that knows nothing, is slow, frozen or away costs a look into the
 * table and nothing else. What it does know it answers by itself, so an answer can outlive its row: after a failover that
 * lost the row, or a purge, the cache still says "stored" until the entry has run out. Hence it is off by default.
 */
export { type KnownIds, knownKey } from './known-ids.js';
export { MemoryIds } from './memory-ids.js';
export { type Processed, type ProcessOnceOptions, processOnce } from './process-once.js';
export { type RedisCommands, RedisIds } from './redis-ids.js';
export { TieredIds } from './tiered-ids.js';
