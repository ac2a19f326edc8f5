import type { ControlConnection, Row } from '../../database/index.js';
import { EditRefusedError } from '../../errors/edit-refused.error.js';
import { archiveMessages } from './archive.store.js';
import { type RunBox, unitColumnsOf } from './run-box.js';

/** A new body for a message that ended. */
export interface Edit {
  readonly id: string;
  readonly body: Buffer;
  /** For the record. */
  readonly reason: string;
  /** A message that was replayed this often is refused; null: no limit. */
  readonly maxReplays: number | null;
}

/**
 * Puts a new message with another body in the place of one that ended, within `tx`: the old one goes into the archive, the new
 * one takes over its keys, also the dedup key, so that the sender's copies stay duplicates. It comes last in its entity.
 * Locks: the old message, by its primary key, then its place in the unique key.
 * @returns the id of the new message
 * @throws EditRefusedError for one that is not there, has not ended, or was replayed too often
 */
export async function replaceMessage(tx: ControlConnection, box: RunBox, edit: Edit, runId: string): Promise<string> {
  const old = await lockEnded(tx, box, edit);
  await archiveMessages(tx, box, [edit.id], `edit: ${edit.reason}`, runId);
  await tx.query(`DELETE FROM ${box.table} WHERE ${box.column('id')} = ?`, [edit.id]);
  return insertFromArchive(tx, box, edit, { runId, unit: box.unitOf(old) });
}

/** With its row locked nobody replays or edits it meanwhile. */
async function lockEnded(tx: ControlConnection, box: RunBox, { id, maxReplays }: Edit): Promise<Row> {
  const [row] = await tx.queryRows<Row & { status: string; replays: number }>(
    box.mapped`SELECT m.status AS status, m.replay_count AS replays, ${unitColumnsOf(box)}
       FROM ${box.table} m WHERE m.id = ? FOR UPDATE`,
    [id],
  );
  if (!row) throw new EditRefusedError(id, 'it is not there any more', 'not-there');
  if (!box.statuses.includes(row.status)) throw new EditRefusedError(id, `its status is ${row.status}`, 'not-ended');
  if (maxReplays !== null && row.replays >= maxReplays)
    throw new EditRefusedError(id, `it was replayed ${row.replays} times`, 'too-often');
  return row;
}

/** Index: `(id)` of the archive finds the copy that was written a moment ago. */
async function insertFromArchive(
  tx: ControlConnection,
  box: RunBox,
  { id, body }: Edit,
  { runId, unit }: { readonly runId: string; readonly unit: string | null },
): Promise<string> {
  const { kept, body: bodyColumn, fresh } = box.copy;
  const own = fresh();
  const names = ['status', 'next_attempt_at', 'replay_count', 'replay_of', box.receivedAt, 'updated_at'];
  const columns = [...kept, bodyColumn, box.open, ...Object.keys(own), ...names];
  const { insertId } = await tx.query(
    `INSERT INTO ${box.table} (${columns.map(box.column).join(', ')})
     SELECT ${[...kept, '?', '?', ...Object.keys(own).map(() => '?')].join(', ')},
            'pending', UTC_TIMESTAMP(3), replay_count + 1, id, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3)
       FROM ${box.archive} WHERE id = ? AND run_id = ?`,
    [body, unit, ...Object.values(own), id, runId],
  );
  return String(insertId);
}
