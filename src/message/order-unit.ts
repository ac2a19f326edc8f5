import { entityHash } from './entity-hash.js';

/**
 * Hash of an outbox message's order unit, column `open_unit`: key and receiver, each with its length, so that no two
 * pairs run together.
 */
export function orderUnit(key: Buffer | null, receiver: Buffer | null): string {
  const parts = [key, receiver].flatMap((part) => [Buffer.from(`${part?.length ?? '-'}:`), part ?? Buffer.alloc(0)]);
  return entityHash('outbox', Buffer.concat(parts));
}
