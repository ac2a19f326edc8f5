import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';

/** host:pid:random, at most 57 ASCII characters: who claimed a row, readable for a person, never used twice. */
export function newInstanceId(): string {
  const host =
    hostname()
      .replace(/[^\w.-]/g, '_')
      .slice(0, 36) || 'host';
  return `${host}:${process.pid}:${randomBytes(5).toString('hex')}`;
}
