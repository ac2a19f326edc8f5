import { randomBytes } from 'node:crypto';

/** 128 random bits: the fence of one claim. */
export function newClaimToken(): Buffer {
  return randomBytes(16);
}
