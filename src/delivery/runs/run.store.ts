import type { ControlConnection, ControlPool, Row } from '../../database/index.js';
import { InvalidSelectionError } from '../../errors/invalid-selection.error.js';
import { OverlappingRunError } from '../../errors/overlapping-run.error.js';
import { newClaimToken } from '../claim-token.js';
import { type Edit, replaceMessage } from './edit.store.js';
import { type Preview, previewOf } from './preview.store.js';
import type { Run, RunRequest, RunStep } from './run.js';
import type { RunBox } from './run-box.js';
import { stepRun } from './run-step.store.js';
import { type Condition, conditionOf, type Selection } from './selection.js';

/** Messages that one run takes at most: its ids are written down in one transaction. */
export const mostSelected = 100_000;
const freezeStep = 5_000;

interface RunRow extends Row {
  readonly id: string;
  readonly box: 'inbox' | 'outbox';
  readonly action: Run['action'];
  readonly state: Run['state'];
  readonly actor: string;
  readonly reason: string;
  readonly selection: string;
  readonly rate: string;
  readonly keep_order: number;
  readonly selected: number;
  readonly requeued: number;
  readonly discarded: number;
  readonly skipped: number;
  readonly refused: number;
  readonly created_at: string;
  readonly started_at: string | null;
  readonly finished_at: string | null;
}

const runColumns = `CAST(r.id AS CHAR) AS id, r.box, r.action, r.state, r.actor, r.reason, CAST(r.selection AS CHAR) AS selection,
  CAST(r.rate_per_second AS CHAR) AS rate, r.keep_order, r.selected, r.requeued, r.discarded, r.skipped, r.refused,
  CAST(r.created_at AS CHAR) AS created_at, CAST(r.started_at AS CHAR) AS started_at, CAST(r.finished_at AS CHAR) AS finished_at`;

/**
 * Runs: what people did to messages, with a record. The ids are written down when a run starts, so that a message which
 * fails later is not swept in; each message is moved, archived and counted in one transaction, so that none is moved
 * twice by a run, whatever ends in between.
 */
export class RunStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly box: RunBox,
  ) {}

  get name(): RunBox['name'] {
    return this.box.name;
  }

  /**
   * Creates a run and writes down which messages it takes.
   * Locks: one row per box, so that of two runs with a message in common one is refused.
   * @throws InvalidSelectionError when nothing is meant, or more than 100,000 messages are
   * @throws OverlappingRunError with the other run's id
   */
  async create(selection: Selection, request: RunRequest): Promise<string> {
    const condition = conditionOf(selection, this.box);
    const lockName = `run:${this.box.name}`;
    await this.ensureLock(lockName);
    return this.pool.transaction(async (tx) => {
      await tx.rows('SELECT name FROM mailroom_lease WHERE name = ? FOR UPDATE', [lockName]);
      const inserted = await tx.execute(
        `INSERT INTO replay_run (box, action, selection, actor, reason, state, rate_per_second, keep_order, max_replays, created_at, updated_at)
         VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, ?, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))`,
        [
          this.box.name,
          request.action,
          asciiJson(selection),
          request.actor,
          request.reason,
          request.ratePerSecond,
          request.keepOrder ? 1 : 0,
          request.maxReplays,
        ],
      );
      const run = String(inserted.insertId);
      const selected = await this.freeze(tx, run, condition);
      await this.refuseOverlap(tx, run, '0');
      await tx.execute('UPDATE replay_run SET selected = ? WHERE id = ?', [selected, run]);
      return run;
    });
  }

  /**
   * Puts a message with another body in the place of one that ended, and records it as a run that is done.
   * Locks: the row of `create`, so that no run which has the message starts meanwhile; then as `replaceMessage`.
   * @throws EditRefusedError, OverlappingRunError
   */
  async edit(edit: Edit, actor: string): Promise<{ readonly runId: string; readonly messageId: string }> {
    const lockName = `run:${this.box.name}`;
    await this.ensureLock(lockName);
    return this.pool.transaction(async (tx) => {
      await tx.rows('SELECT name FROM mailroom_lease WHERE name = ? FOR UPDATE', [lockName]);
      const inserted = await tx.execute(
        `INSERT INTO replay_run (box, action, selection, actor, reason, state, selected, requeued, last_message_id,
                created_at, started_at, finished_at, updated_at)
         VALUES (?, 'edit', ?, ?, ?, 'done', 1, 1, ?, UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3), UTC_TIMESTAMP(3))`,
        [this.box.name, asciiJson({ ids: [edit.id] }), actor, edit.reason, edit.id],
      );
      const runId = String(inserted.insertId);
      await tx.execute('INSERT INTO replay_item (run_id, message_id) VALUES (?, ?)', [runId, edit.id]);
      await this.refuseOverlap(tx, runId, '0');
      const messageId = await replaceMessage(tx, this.box, edit, runId);
      await tx.execute(
        `UPDATE replay_item SET outcome = 'requeued', detail = ?, outcome_at = UTC_TIMESTAMP(3)
          WHERE run_id = ? AND message_id = ?`,
        [`as message ${messageId}`, runId, edit.id],
      );
      return { runId, messageId };
    });
  }

  async get(run: string): Promise<Run | null> {
    const rows = await this.pool.rows<RunRow>(`SELECT ${runColumns} FROM replay_run r WHERE r.id = ? AND r.box = ?`, [
      run,
      this.box.name,
    ]);
    return rows[0] ? runOf(rows[0]) : null;
  }

  /** The newest runs first; `before`: id of the last one of the page before. */
  async list(limit: number, before: string | null): Promise<Run[]> {
    const rows = await this.pool.rows<RunRow>(
      `SELECT ${runColumns} FROM replay_run r WHERE r.box = ? AND r.id < ? ORDER BY r.id DESC LIMIT ${Math.trunc(limit)}`,
      [this.box.name, before ?? '18446744073709551615'],
    );
    return rows.map(runOf);
  }

  /** True if it was still going. What was moved so far stays moved. */
  async cancel(run: string): Promise<boolean> {
    const result = await this.pool.execute(
      `UPDATE replay_run SET state = 'cancelled', finished_at = UTC_TIMESTAMP(3), updated_at = UTC_TIMESTAMP(3),
              claim_token = NULL, claimed_by = NULL, claimed_until = NULL
        WHERE id = ? AND box = ? AND state IN ('pending', 'running')`,
      [run, this.box.name],
    );
    return result.affectedRows === 1;
  }

  /** A cancelled run goes on with what it has not done yet. False: it was not cancelled. @throws OverlappingRunError */
  async resume(run: string): Promise<boolean> {
    return this.pool.transaction(async (tx) => {
      await tx.rows('SELECT name FROM mailroom_lease WHERE name = ? FOR UPDATE', [`run:${this.box.name}`]);
      const [own] = await tx.rows<Row & { last: string }>(
        'SELECT CAST(r.last_message_id AS CHAR) AS last FROM replay_run r WHERE r.id = ? FOR UPDATE',
        [run],
      );
      await this.refuseOverlap(tx, run, own?.last ?? '0');
      const result = await tx.execute(
        `UPDATE replay_run SET state = 'pending', finished_at = NULL, updated_at = UTC_TIMESTAMP(3)
          WHERE id = ? AND box = ? AND state = 'cancelled'`,
        [run, this.box.name],
      );
      return result.affectedRows === 1;
    });
  }

  /** Oldest run that nobody works on; also one whose owner gave no sign for a while. */
  async claimNext(owner: string, claimMs: number): Promise<{ readonly run: Run; readonly token: Buffer } | null> {
    const rows = await this.pool.rows<RunRow>(
      `SELECT ${runColumns} FROM replay_run r FORCE INDEX (replay_run_state)
        WHERE r.state = 'running' AND r.box = ? AND r.claimed_until <= UTC_TIMESTAMP(3) ORDER BY r.id LIMIT 1`,
      [this.box.name],
    );
    const fresh = await this.pool.rows<RunRow>(
      `SELECT ${runColumns} FROM replay_run r FORCE INDEX (replay_run_state)
        WHERE r.state = 'pending' AND r.box = ? ORDER BY r.id LIMIT 1`,
      [this.box.name],
    );
    const row = rows[0] ?? fresh[0];
    if (!row) return null;
    const token = await this.claim(row.id, owner, claimMs);
    return token ? { run: runOf(row), token } : null;
  }

  /** Null: somebody else works on it, or it has ended. */
  async claim(run: string, owner: string, claimMs: number): Promise<Buffer | null> {
    const token = newClaimToken();
    const result = await this.pool.execute(
      `UPDATE replay_run
          SET state = 'running', claim_token = ?, claimed_by = ?, claimed_until = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND,
              started_at = COALESCE(started_at, UTC_TIMESTAMP(3)), updated_at = UTC_TIMESTAMP(3)
        WHERE id = ? AND box = ? AND (state = 'pending' OR (state = 'running' AND claimed_until <= UTC_TIMESTAMP(3)))`,
      [token, owner, claimMs * 1000, run, this.box.name],
    );
    return result.affectedRows === 1 ? token : null;
  }

  /** Still ours? Then it stays so for `claimMs`. */
  async beat(run: string, token: Buffer, claimMs: number): Promise<boolean> {
    const result = await this.pool.execute(
      `UPDATE replay_run SET claimed_until = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, updated_at = UTC_TIMESTAMP(3)
        WHERE id = ? AND state = 'running' AND claim_token = ?`,
      [claimMs * 1000, run, token],
    );
    return result.affectedRows === 1;
  }

  /** See `stepRun`. */
  step(run: Run, token: Buffer, limit: number, claimMs: number): Promise<RunStep> {
    return stepRun(this.pool, this.box, run, token, limit, claimMs);
  }

  /** See `previewOf`. */
  preview(selection: Selection, countTo: number): Promise<Preview> {
    return previewOf(this.pool, this.box, selection, countTo);
  }

  private async ensureLock(name: string): Promise<void> {
    const rows = await this.pool.rows('SELECT 1 AS one FROM mailroom_lease WHERE name = ?', [name]);
    if (rows.length > 0) return;
    await this.pool.execute('INSERT INTO mailroom_lease (name) VALUES (?) ON DUPLICATE KEY UPDATE name = name', [name]);
  }

  private async freeze(tx: ControlConnection, run: string, { sql, values, index }: Condition): Promise<number> {
    let selected = 0;
    for (let after = '0'; ; ) {
      const rows = await tx.queryRows<Row & { id: string }>(
        this.box
          .mapped`SELECT CAST(m.id AS CHAR) AS id FROM ${this.box.table} m FORCE INDEX (${index}) WHERE ${sql} AND m.id > ? ORDER BY m.id LIMIT ${freezeStep}`,
        [...values, after],
      );
      selected += rows.length;
      if (selected > mostSelected)
        throw new InvalidSelectionError(
          'selection',
          `it means more than ${mostSelected} messages; narrow it, for example by time`,
        );
      if (rows.length > 0)
        await tx.query(`INSERT INTO replay_item (run_id, message_id) VALUES ${rows.map(() => '(?, ?)').join(', ')}`, [
          ...rows.flatMap(({ id }) => [run, id]),
        ]);
      if (rows.length < freezeStep) return selected;
      after = rows.at(-1)?.id ?? after;
    }
  }

  /**
   * Of two runs that have a message before them in common, the later one is refused.
   * @param after what the run itself has behind it
   * Locks: nothing; the caller holds the row that runs are created under. Index: the primary key of replay_item.
   */
  private async refuseOverlap(tx: ControlConnection, run: string, after: string): Promise<void> {
    const [other] = await tx.rows<Row & { id: string }>(
      `SELECT CAST(r.id AS CHAR) AS id FROM replay_run r
         JOIN replay_item mine ON mine.run_id = ? AND mine.message_id > ?
         JOIN replay_item theirs ON theirs.run_id = r.id AND theirs.message_id = mine.message_id
        WHERE r.box = ? AND r.state IN ('pending', 'running') AND r.id <> ? AND theirs.message_id > r.last_message_id
        ORDER BY r.id LIMIT 1`,
      [run, after, this.box.name, run],
    );
    if (other) throw new OverlappingRunError(other.id);
  }
}

function runOf(row: RunRow): Run {
  return {
    id: row.id,
    box: row.box,
    action: row.action,
    state: row.state,
    actor: row.actor,
    reason: row.reason,
    selection: row.selection,
    ratePerSecond: Number(row.rate),
    keepOrder: Number(row.keep_order) === 1,
    selected: Number(row.selected),
    requeued: Number(row.requeued),
    discarded: Number(row.discarded),
    skipped: Number(row.skipped),
    refused: Number(row.refused),
    createdAt: row.created_at,
    startedAt: row.started_at,
    finishedAt: row.finished_at,
  };
}

/** JSON in ASCII: any connection carries it. */
function asciiJson(value: unknown): string {
  const text = JSON.stringify(value, (_key, one: unknown) => (typeof one === 'bigint' ? String(one) : one));
  return text.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
