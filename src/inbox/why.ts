import type { ControlPool, Row } from '../database/index.js';
import type { BoxTable, ReorderStore } from '../delivery/index.js';
import type { InboxStatus } from '../message/inbox-status.js';

/**
 * What a message waits for.
 *
 * - unknown-id: there is no such message (any more)
 * - done, failed: finished; a failed one waits for a person
 * - handling: an owner has claimed it
 * - behind: a message of its entity that comes first is not finished
 * - later: its due time has not come: a retry, a delay, or it was put off
 * - paused, no-handler, closed-off: this process does not handle its kind now (closed-off: breaker or limit)
 * - due: nothing stands in its way; its lane will come to it
 */
export type WaitCode =
  | 'unknown-id'
  | 'done'
  | 'failed'
  | 'handling'
  | 'behind'
  | 'later'
  | 'paused'
  | 'no-handler'
  | 'closed-off'
  | 'due';

export interface WaitReason {
  readonly id: string;
  readonly code: WaitCode;
  /** One sentence for a person. */
  readonly text: string;
  readonly status: InboxStatus | null;
}

/** What this process says about a kind of messages; null: it may be handled. */
export type KindCheck = (
  source: string,
  type: string,
) => { readonly code: 'paused' | 'no-handler' | 'closed-off'; readonly text: string } | null;

interface StoredState extends Row {
  readonly source: string;
  readonly type: string;
  readonly status: InboxStatus;
  readonly attempts: string;
  readonly open: string | null;
  readonly lane: number;
  readonly due: string;
  readonly is_due: string;
  readonly claimed_by: string | null;
  readonly claimed_until: string | null;
  readonly error_kind: string | null;
  readonly finished_at: string | null;
}

/** Says what a message waits for: two look-ups by key, no lock. The message may have moved on when the answer arrives. */
export async function whyWaiting(
  id: string,
  pool: ControlPool,
  table: BoxTable,
  checkKind: KindCheck,
  reorder: ReorderStore | null = null,
): Promise<WaitReason> {
  const row = /^\d{1,20}$/.test(id) ? await stateOf(id, pool, table) : undefined;
  if (!row) return { id, code: 'unknown-id', text: 'there is no message with this id', status: null };
  const reason = (code: WaitCode, text: string): WaitReason => ({ id, code, text, status: row.status });
  switch (row.status) {
    case 'success':
      return reason('done', `it was handled, ${row.finished_at ?? '?'} UTC, attempt ${row.attempts}`);
    case 'failed': {
      const parked = row.open === null ? '' : '; its entity is parked until releaseEntity() is called';
      return reason('failed', `it failed with kind ${row.error_kind ?? '?'} in attempt ${row.attempts}${parked}`);
    }
    case 'processing':
      return reason(
        'handling',
        `attempt ${row.attempts} runs at ${row.claimed_by ?? '?'}; its claim lasts until ${row.claimed_until ?? '?'} UTC`,
      );
    case 'pending':
    case 'held':
  }
  const before = row.open === null ? null : await headBefore(id, row, row.open, pool, table, reorder);
  if (before) {
    const state = before.status === 'failed' ? 'failed and parked its entity' : `is ${before.status}`;
    return reason('behind', `it is held behind message ${before.id} of its entity, which ${state}`);
  }
  if (row.is_due !== '1') {
    const error = row.error_kind === null ? '' : `; its last attempt ended with ${row.error_kind}`;
    return reason('later', `it is due at ${row.due} UTC, after ${row.attempts} attempts${error}`);
  }
  const kind = checkKind(row.source, row.type);
  if (kind) return reason(kind.code, kind.text);
  return reason('due', `it is due since ${row.due} UTC and waits for its turn in lane ${row.lane}`);
}

async function stateOf(id: string, pool: ControlPool, table: BoxTable): Promise<StoredState | undefined> {
  const rows = await pool.rows<StoredState>(
    table.mapped`SELECT ${table.source} AS source, ${table.type} AS type, m.status AS status, CAST(m.attempts AS CHAR) AS attempts, CAST(m.${table.open} AS CHAR) AS open, m.lane AS lane,
            CAST(m.next_attempt_at AS CHAR) AS due, CAST(m.next_attempt_at <= UTC_TIMESTAMP(3) AS CHAR) AS is_due,
            m.claimed_by AS claimed_by, CAST(m.claimed_until AS CHAR) AS claimed_until, m.error_kind AS error_kind,
            CAST(m.${table.finishedAt} AS CHAR) AS finished_at
       FROM ${table.name} m WHERE m.${table.id} = ?`,
    [id],
  );
  return rows[0];
}

/** The unfinished message of its entity that has to be handled before it. */
async function headBefore(
  id: string,
  { source, due }: StoredState,
  open: string,
  pool: ControlPool,
  table: BoxTable,
  reorder: ReorderStore | null,
): Promise<{ id: string; status: string } | undefined> {
  if (!reorder?.ruleOf(source)) return olderOf(id, open, pool, table);
  const turn = (await reorder.placeOf({ id, source, open, due }, new Set()))?.turn;
  if (turn?.kind === 'behind') return turn.head;
  return turn?.kind === 'after' ? turn.earlier[0] : undefined;
}

/** The unfinished message of the entity that is next before `id`. Index: (open, id), read backwards. */
async function olderOf(
  id: string,
  open: string,
  pool: ControlPool,
  { name, id: idColumn, open: openColumn, openIndex, mapped }: BoxTable,
): Promise<{ id: string; status: InboxStatus } | undefined> {
  const rows = await pool.rows<Row & { id: string; status: InboxStatus }>(
    mapped`SELECT CAST(m.${idColumn} AS CHAR) AS id, m.status AS status FROM ${name} m FORCE INDEX (${openIndex})
      WHERE m.${openColumn} = ? AND m.${idColumn} < ? ORDER BY m.${idColumn} DESC LIMIT 1`,
    [open, id],
  );
  return rows[0];
}
