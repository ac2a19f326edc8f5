import { randomFillSync } from 'node:crypto';

const tokenBytes = 16;
/** Random bytes are asked for in bulk: one call of the generator costs more than the rest of a claim. */
const bulk = Buffer.alloc(256 * tokenBytes);
let used = bulk.length;

/** 128 random bits: the fence of one claim. */
export function newClaimToken(): Buffer {
  if (used === bulk.length) {
    randomFillSync(bulk);
    used = 0;
  }
  used += tokenBytes;
  return Buffer.from(bulk.subarray(used - tokenBytes, used));
}
