import { hash } from 'node:crypto';

/**
 * 64-bit hash of (source, entity key) as a decimal string, the value of column `open_entity`. Two entities that share
 * it (about 1 in 10^10 at 60,000 open entities) only wait for each other; nothing is lost or reordered.
 */
export function entityHash(source: string, entityKey: Buffer): string {
  return digest(source, entityKey).readBigUInt64BE(0).toString();
}

/** The lane of an entity: stable for a given lane count, spread evenly. */
export function laneOf(source: string, entityKey: Buffer, lanes: number): number {
  return lanes === 1 ? 0 : digest(source, entityKey).readUInt32BE(8) % lanes;
}

function digest(source: string, entityKey: Buffer): Buffer {
  return hash('sha256', Buffer.concat([Buffer.from(`${source}\0`), entityKey]), 'buffer');
}
