import type { ControlConnection, ControlPool, Row } from '../../database/index.js';
import { entityHash } from '../../message/entity-hash.js';
import { archiveMessages } from './archive.store.js';
import type { ItemOutcome, Run, RunStep } from './run.js';
import { type RunBox, unitColumnsOf } from './run-box.js';

interface MovedRow extends Row {
  readonly id: string;
  readonly status: string;
  readonly replays: number;
  readonly open: string | null;
  readonly sequence: string | null;
  readonly max: number | null;
}

interface Outcome {
  readonly outcome: ItemOutcome;
  readonly detail: string | null;
}

/** Ends a run that is not ours to go on with. */
const over: RunStep = { going: false, handled: 0, freed: [] };

/**
 * Moves the next messages of a run, at most `limit`: archived as they were, made due again or taken out, counted and
 * noted, all in one transaction.
 * Locks: the run's row (the fence: who works on the run, and that it was not cancelled), then the messages by primary key,
 * in order.
 */
export function stepRun(
  pool: ControlPool,
  box: RunBox,
  run: Run,
  token: Buffer,
  limit: number,
  claimMs: number,
): Promise<RunStep> {
  return pool.transaction(async (tx) => {
    const fenced = await tx.execute(
      `UPDATE replay_run SET claimed_until = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, updated_at = UTC_TIMESTAMP(3)
        WHERE id = ? AND state = 'running' AND claim_token = ?`,
      [claimMs * 1000, run.id, token],
    );
    if (fenced.affectedRows !== 1) return over;
    const ids = await nextOf(tx, run, limit);
    if (ids.length === 0) {
      await end(tx, run);
      return over;
    }
    return { going: true, handled: ids.length, freed: await move(tx, box, run, ids) };
  });
}

/** What was written down and has had no turn. Index: the primary key of replay_item, from where the last step ended. */
async function nextOf(tx: ControlConnection, run: Run, limit: number): Promise<string[]> {
  const items = await tx.rows<Row & { id: string }>(
    `SELECT CAST(i.message_id AS CHAR) AS id FROM replay_item i JOIN replay_run r ON r.id = i.run_id
      WHERE i.run_id = ? AND i.message_id > r.last_message_id ORDER BY i.message_id LIMIT ${Math.trunc(limit)}`,
    [run.id],
  );
  return items.map(({ id }) => id);
}

/** Its row is locked by the fence above. */
async function end(tx: ControlConnection, run: Run): Promise<void> {
  await tx.execute(
    `UPDATE replay_run SET state = 'done', finished_at = UTC_TIMESTAMP(3), claim_token = NULL, claimed_by = NULL, claimed_until = NULL
      WHERE id = ?`,
    [run.id],
  );
}

async function move(tx: ControlConnection, box: RunBox, run: Run, ids: readonly string[]): Promise<readonly string[]> {
  const found = new Map((await lock(tx, box, run, ids)).map((row) => [row.id, row]));
  const outcomes = new Map(ids.map((id) => [id, outcomeOf(found.get(id), box, run)]));
  const moved = [...found.values()].filter(({ id }) =>
    ['requeued', 'discarded'].includes(outcomes.get(id)?.outcome ?? ''),
  );
  await archiveMessages(
    tx,
    box,
    moved.map(({ id }) => id),
    `${run.action}: ${run.reason}`,
    run.id,
  );
  if (run.action === 'replay') for (const row of moved) await requeue(tx, box, run, row);
  else await remove(tx, box, moved);
  await note(tx, run, ids, outcomes);
  return run.action === 'replay' ? [] : moved.flatMap(({ open }) => (open === null ? [] : [open]));
}

/**
 * The messages as they are now: whoever was changing one has committed.
 * Locks: the rows, in order of their primary key.
 */
function lock(tx: ControlConnection, box: RunBox, run: Run, ids: readonly string[]) {
  return tx.queryRows<MovedRow>(
    box.mapped`SELECT CAST(m.id AS CHAR) AS id, m.status AS status, m.replay_count AS replays, CAST(m.${box.column(box.open)} AS CHAR) AS open,
            CAST(m.sequence AS CHAR) AS sequence, ${unitColumnsOf(box)},
            (SELECT r.max_replays FROM replay_run r WHERE r.id = ?) AS max
       FROM ${box.table} m WHERE m.id IN (${places(ids)}) ORDER BY m.id FOR UPDATE`,
    [run.id, ...ids],
  );
}

function outcomeOf(row: MovedRow | undefined, { statuses }: RunBox, run: Run): Outcome {
  if (!row) return { outcome: 'skipped', detail: 'it is not there any more' };
  if (!statuses.includes(row.status)) return { outcome: 'skipped', detail: `its status is ${row.status}` };
  if (run.action === 'discard') return { outcome: 'discarded', detail: null };
  if (row.max !== null && row.replays >= row.max)
    return { outcome: 'refused', detail: `it was replayed ${row.replays} times` };
  return { outcome: 'requeued', detail: null };
}

/**
 * Due now, with all its retries before it. Its place in the order of its entity is that of its id; in a run that keeps order
 * those without an entity are in one unit of their own, so that each waits for the one before it.
 * Locks: nothing new. The status is repeated: only what has ended is moved.
 */
async function requeue(tx: ControlConnection, box: RunBox, run: Run, row: MovedRow): Promise<void> {
  const { table, open, cleared } = box;
  const ownUnit = run.keepOrder && row.sequence === null ? unitOfRun(run) : null;
  await tx.query(
    box.mapped`UPDATE ${table} m FORCE INDEX (PRIMARY)
        SET m.status = 'pending', m.attempts = 0, m.next_attempt_at = UTC_TIMESTAMP(3), m.${box.column(open)} = ?,
            ${cleared.map((name) => `m.${box.column(name)} = NULL`).join(', ')}, m.error_kind = NULL, m.error_message = NULL,
            m.replay_count = m.replay_count + 1, m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL,
            m.updated_at = UTC_TIMESTAMP(3)
      WHERE m.id = ? AND m.status = ?`,
    [box.unitOf(row) ?? ownUnit, row.id, row.status],
  );
}

/** No source has this name. */
function unitOfRun({ id }: Run): string {
  return entityHash('\0replay-run', Buffer.from(id));
}

/** Locks: nothing new; by primary key, in order. */
async function remove(tx: ControlConnection, { table, column }: RunBox, rows: readonly MovedRow[]): Promise<void> {
  if (rows.length === 0) return;
  await tx.query(
    `DELETE FROM ${table} WHERE ${column('id')} IN (${places(rows)}) ORDER BY ${column('id')}`,
    rows.map(({ id }) => id),
  );
}

/** One statement for each outcome that occurs, and one for the counts. Locks: the items of this step and the run's row. */
async function note(
  tx: ControlConnection,
  run: Run,
  ids: readonly string[],
  outcomes: ReadonlyMap<string, Outcome>,
): Promise<void> {
  const groups = new Map<string, Outcome & { readonly ids: string[] }>();
  const counts: Record<ItemOutcome, number> = { requeued: 0, discarded: 0, skipped: 0, refused: 0 };
  for (const [id, { outcome, detail }] of outcomes) {
    counts[outcome]++;
    const key = `${outcome}\0${detail ?? ''}`;
    const group = groups.get(key) ?? { outcome, detail, ids: [] };
    group.ids.push(id);
    groups.set(key, group);
  }
  for (const { outcome, detail, ids: of } of groups.values()) {
    await tx.query(
      `UPDATE replay_item SET outcome = ?, detail = ?, outcome_at = UTC_TIMESTAMP(3)
        WHERE run_id = ? AND message_id IN (${places(of)})`,
      [outcome, detail, run.id, ...of],
    );
  }
  await tx.execute(
    `UPDATE replay_run SET requeued = requeued + ?, discarded = discarded + ?, skipped = skipped + ?, refused = refused + ?,
            last_message_id = ? WHERE id = ?`,
    [counts.requeued, counts.discarded, counts.skipped, counts.refused, ids.at(-1), run.id],
  );
}

function places(values: readonly unknown[]): string {
  return values.map(() => '?').join(', ');
}
