import type { ControlPool, Row } from '../database/index.js';
import type { BoxTable } from './box-table.js';

/** More lanes than anybody configures; the walk over them must end. */
const mostLanes = 1_024;

/**
 * Lanes at or above `from` that hold unfinished messages: left over from a time with more lanes. One look into the claim
 * index per lane and status. Locks nothing.
 */
export async function findLanes(
  pool: ControlPool,
  { name, claimIndex, mapped }: BoxTable,
  from: number,
): Promise<number[]> {
  const found = new Set<number>();
  for (const status of ['pending', 'processing', 'held']) {
    for (let next = from; found.size < mostLanes; ) {
      const [row] = await pool.rows<Row & { lane: number }>(
        mapped`SELECT m.lane AS lane FROM ${name} m FORCE INDEX (${claimIndex}) WHERE m.status = ? AND m.lane >= ? ORDER BY m.lane LIMIT 1`,
        [status, next],
      );
      if (!row) break;
      found.add(row.lane);
      next = row.lane + 1;
    }
  }
  return [...found].sort((a, b) => a - b);
}
