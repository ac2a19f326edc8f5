import type { ControlConnection } from '../../database/index.js';
import type { RunBox } from './run-box.js';

/**
 * Copies messages into the archive as they are, error, attempts and times included. In the transaction that changes or
 * deletes them, so that both happen or neither.
 * Locks: nothing that the caller has not locked. Index: the primary key.
 */
export async function archiveMessages(
  tx: ControlConnection,
  { table, archive, columns, column }: RunBox,
  ids: readonly string[],
  reason: string,
  runId: string | null,
): Promise<void> {
  if (ids.length === 0) return;
  const ours = columns.map((name) => `\`${name}\``).join(', ');
  const theirs = columns.map((name) => `m.${column(name)}`).join(', ');
  const id = `m.${column('id')}`;
  await tx.query(
    `INSERT INTO ${archive} (id, ${ours}, archived_at, reason, run_id)
     SELECT ${id}, ${theirs}, UTC_TIMESTAMP(3), ?, ? FROM ${table} m WHERE ${id} IN (${ids.map(() => '?').join(', ')}) ORDER BY ${id}`,
    [[...reason].slice(0, 500).join(''), runId, ...ids],
  );
}
