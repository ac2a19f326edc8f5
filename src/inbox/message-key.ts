import { hash } from 'node:crypto';
import type { KeyValue } from './source-options.js';

const longestKey = 255;

/**
 * The bytes of a key. Two keys are the same only if their bytes are: case, accents and trailing blanks count. Keys that
 * do not fit the column are replaced by the SHA-256 of their bytes.
 * @returns null for a value from which no key may be made
 */
export function keyBytes(value: KeyValue): Buffer | null {
  const bytes = rawBytes(value);
  if (bytes === null || bytes.length === 0) return null;
  return bytes.length <= longestKey ? bytes : hash('sha256', bytes, 'buffer');
}

function rawBytes(value: unknown): Buffer | null {
  // A lone surrogate has no bytes of its own: two such keys would become one.
  if (typeof value === 'string') return value.isWellFormed() ? Buffer.from(value) : null;
  if (typeof value === 'bigint') return Buffer.from(value.toString());
  // Numbers beyond 2^53 have lost digits in JSON.parse: two different messages would share a key.
  if (typeof value === 'number') return Number.isSafeInteger(value) ? Buffer.from(String(value)) : null;
  return Buffer.isBuffer(value) ? value : null;
}
