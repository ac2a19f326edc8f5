import type { ControlConnection } from '../../database/index.js';
import type { RunBox } from './run-box.js';

/**
 * Copies messages into the archive as they are, error, attempts and times included. In the transaction that changes or
 * deletes them, so that both happen or neither.
 * Locks: nothing that the caller has not locked. Index: the primary key.
 */
export async function archiveMessages(
  tx: ControlConnection,
  { table, archive, columns }: RunBox,
  ids: readonly string[],
  reason: string,
  runId: string | null,
): Promise<void> {
  if (ids.length === 0) return;
  const list = columns.map((column) => `\`${column}\``).join(', ');
  await tx.query(
    `INSERT INTO ${archive} (id, ${list}, archived_at, reason, run_id)
     SELECT id, ${list}, UTC_TIMESTAMP(3), ?, ? FROM ${table} WHERE id IN (${ids.map(() => '?').join(', ')}) ORDER BY id`,
    [[...reason].slice(0, 500).join(''), runId, ...ids],
  );
}
