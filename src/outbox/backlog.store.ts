import type { ControlPool, Row } from '../database/index.js';
import type { Waiting } from '../pressure/index.js';

/**
 * What waits to be sent, counted up to `countTo`. Index: at most so many entries of the claim index, and one look for the
 * oldest due one. Locks nothing. What is parked waits for its receiver and not for us.
 */
export async function outboxBacklog(pool: ControlPool, countTo: number): Promise<Waiting> {
  const from = 'FROM outbox_message m FORCE INDEX (outbox_claim)';
  const most = Math.trunc(countTo);
  const [row] = await pool.rows<Row & { pending: string; held: string; oldest: string | null }>(
    `SELECT CAST((SELECT COUNT(*) FROM (SELECT 1 AS one ${from} WHERE m.status = 'pending' LIMIT ${most}) p) AS CHAR) AS pending,
            CAST((SELECT COUNT(*) FROM (SELECT 1 AS one ${from} WHERE m.status = 'held' LIMIT ${most}) h) AS CHAR) AS held,
            CAST((SELECT TIMESTAMPDIFF(MICROSECOND, m.next_attempt_at, UTC_TIMESTAMP(3)) ${from}
                   WHERE m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3)
                   ORDER BY m.next_attempt_at, m.id LIMIT 1) AS CHAR) AS oldest`,
  );
  return {
    messages: Math.min(most, Number(row?.pending ?? 0) + Number(row?.held ?? 0)),
    oldestDueMs: row?.oldest == null ? null : Math.round(Number(row.oldest) / 1000),
  };
}
