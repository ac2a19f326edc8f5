import type { ControlConnection, ControlPool, Row } from '../../database/index.js';
import { InvalidSelectionError } from '../../errors/invalid-selection.error.js';
import { OverlappingRunError } from '../../errors/overlapping-run.error.js';
import { newClaimToken } from '../claim-token.js';
import type { ItemOutcome, Run, RunRequest, RunStep } from './run.js';
import type { RunBox } from './run-box.js';
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
      await this.refuseOverlap(tx, run);
      await tx.execute('UPDATE replay_run SET selected = ? WHERE id = ?', [selected, run]);
      return run;
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
      await this.refuseOverlap(tx, run);
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

  /**
   * Moves the next messages of a run, at most `limit`: archived as they were, made due again or taken out, counted and
   * noted, all in one transaction.
   * Locks: the run's row (the fence of the run), then the messages by primary key, in order.
   */
  async step(run: Run, token: Buffer, limit: number, claimMs: number): Promise<RunStep> {
    return this.pool.transaction(async (tx) => {
      const fenced = await tx.execute(
        `UPDATE replay_run SET claimed_until = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, updated_at = UTC_TIMESTAMP(3)
          WHERE id = ? AND state = 'running' AND claim_token = ?`,
        [claimMs * 1000, run.id, token],
      );
      if (fenced.affectedRows !== 1) return { going: false, handled: 0, freed: [] };
      const items = await tx.rows<Row & { id: string; last: string }>(
        `SELECT CAST(i.message_id AS CHAR) AS id FROM replay_item i JOIN replay_run r ON r.id = i.run_id
          WHERE i.run_id = ? AND i.message_id > r.last_message_id ORDER BY i.message_id LIMIT ${Math.trunc(limit)}`,
        [run.id],
      );
      if (items.length === 0) {
        await tx.execute(
          `UPDATE replay_run SET state = 'done', finished_at = UTC_TIMESTAMP(3), claim_token = NULL, claimed_by = NULL, claimed_until = NULL
            WHERE id = ?`,
          [run.id],
        );
        return { going: false, handled: 0, freed: [] };
      }
      const freed = await this.move(
        tx,
        run,
        items.map(({ id }) => id),
      );
      return { going: true, handled: items.length, freed };
    });
  }

  /** Counts of the messages that a selection means, and the first few groups of them. Locks nothing, loads no bodies. */
  async preview(selection: Selection, countTo: number): Promise<Preview> {
    const { sql, values, index } = conditionOf(selection, this.box);
    const { table, receivedAt, filters } = this.box;
    const kind = `m.${filters.type ?? filters.topic}`;
    const rows = await this.pool.withConnection((connection) =>
      connection.queryRows<Row & { id: string; kind: string; error: string | null; received: string | null }>(
        `SELECT CAST(m.id AS CHAR) AS id, ${kind} AS kind, m.error_kind AS error, CAST(m.${receivedAt} AS CHAR) AS received
           FROM ${table} m FORCE INDEX (${index}) WHERE ${sql} ORDER BY m.id LIMIT ${Math.trunc(countTo) + 1}`,
        values,
      ),
    );
    const counted = rows.slice(0, countTo);
    const groups = new Map<string, Preview['groups'][number]>();
    for (const { id, kind: type, error } of counted) {
      const key = `${type}\0${error ?? ''}`;
      const group = groups.get(key);
      groups.set(key, { type, errorKind: error, count: (group?.count ?? 0) + 1, example: group?.example ?? id });
    }
    const received = counted.flatMap((row) => (row.received === null ? [] : [row.received])).sort();
    return {
      count: counted.length,
      more: rows.length > countTo,
      groups: [...groups.values()].sort((a, b) => b.count - a.count),
      oldest: received[0] ?? null,
      newest: received.at(-1) ?? null,
    };
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
        `SELECT CAST(m.id AS CHAR) AS id FROM ${this.box.table} m FORCE INDEX (${index}) WHERE ${sql} AND m.id > ? ORDER BY m.id LIMIT ${freezeStep}`,
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

  private async refuseOverlap(tx: ControlConnection, run: string): Promise<void> {
    const [other] = await tx.rows<Row & { id: string }>(
      `SELECT CAST(r.id AS CHAR) AS id FROM replay_run r
         JOIN replay_item mine ON mine.run_id = ?
         JOIN replay_item theirs ON theirs.run_id = r.id AND theirs.message_id = mine.message_id
        WHERE r.box = ? AND r.state IN ('pending', 'running') AND r.id <> ? AND theirs.message_id > r.last_message_id
        ORDER BY r.id LIMIT 1`,
      [run, this.box.name, run],
    );
    if (other) throw new OverlappingRunError(other.id);
  }

  private async move(tx: ControlConnection, run: Run, ids: readonly string[]): Promise<readonly string[]> {
    const { table, statuses, open, unitColumns } = this.box;
    const rows = await tx.queryRows<
      Row & { id: string; status: string; replays: number; open: string | null; max: number | null }
    >(
      `SELECT CAST(m.id AS CHAR) AS id, m.status, m.replay_count AS replays, CAST(m.${open} AS CHAR) AS open,
              ${unitColumns.map((column) => `m.${column}`).join(', ')},
              (SELECT r.max_replays FROM replay_run r WHERE r.id = ?) AS max
         FROM ${table} m WHERE m.id IN (${places(ids)}) ORDER BY m.id FOR UPDATE`,
      [run.id, ...ids],
    );
    const found = new Map(rows.map((row) => [row.id, row]));
    const outcomes = new Map<string, { outcome: ItemOutcome; detail: string | null }>();
    const moved: typeof rows = [];
    for (const id of ids) {
      const row = found.get(id);
      if (!row || !statuses.includes(row.status)) {
        outcomes.set(id, {
          outcome: 'skipped',
          detail: row ? `its status is ${row.status}` : 'it is not there any more',
        });
      } else if (run.action === 'replay' && row.max !== null && row.replays >= row.max) {
        outcomes.set(id, { outcome: 'refused', detail: `it was replayed ${row.replays} times` });
      } else {
        outcomes.set(id, { outcome: run.action === 'replay' ? 'requeued' : 'discarded', detail: null });
        moved.push(row);
      }
    }
    await this.archive(
      tx,
      run,
      moved.map((row) => row.id),
    );
    if (run.action === 'replay') for (const row of moved) await this.requeue(tx, row);
    else if (moved.length > 0)
      await tx.query(
        `DELETE FROM ${table} WHERE id IN (${places(moved)}) ORDER BY id`,
        moved.map((row) => row.id),
      );
    await this.note(tx, run, ids, outcomes);
    return run.action === 'replay' ? [] : moved.flatMap((row) => (row.open === null ? [] : [row.open]));
  }

  /** As they were before: error, attempts and times of each of their lives. */
  private async archive(tx: ControlConnection, run: Run, ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const { table, archive, columns } = this.box;
    const list = columns.map((column) => `\`${column}\``).join(', ');
    await tx.query(
      `INSERT INTO ${archive} (id, ${list}, archived_at, reason, run_id)
       SELECT id, ${list}, UTC_TIMESTAMP(3), ?, ? FROM ${table} WHERE id IN (${places(ids)})`,
      [`${run.action}: ${run.reason}`.slice(0, 500), run.id, ...ids],
    );
  }

  /** Due now, with all its retries before it. Its place in the order of its entity is that of its id. */
  private async requeue(
    tx: ControlConnection,
    row: Row & { readonly id: string; readonly status: string },
  ): Promise<void> {
    const { table, open, finishedAt } = this.box;
    await tx.query(
      `UPDATE ${table} FORCE INDEX (PRIMARY)
          SET status = 'pending', attempts = 0, next_attempt_at = UTC_TIMESTAMP(3), ${open} = ?, ${finishedAt} = NULL,
              error_kind = NULL, error_message = NULL, replay_count = replay_count + 1,
              claim_token = NULL, claimed_by = NULL, claimed_until = NULL, updated_at = UTC_TIMESTAMP(3)
        WHERE id = ? AND status = ?`,
      [this.box.unitOf(row), row.id, row.status],
    );
  }

  private async note(
    tx: ControlConnection,
    run: Run,
    ids: readonly string[],
    outcomes: ReadonlyMap<string, { readonly outcome: ItemOutcome; readonly detail: string | null }>,
  ): Promise<void> {
    const groups = new Map<string, { outcome: ItemOutcome; detail: string | null; ids: string[] }>();
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
}

/** What a selection means, counted up to a limit. */
export interface Preview {
  readonly count: number;
  /** There are more than `count`. */
  readonly more: boolean;
  readonly groups: readonly {
    readonly type: string;
    readonly errorKind: string | null;
    readonly count: number;
    /** Id of one of them. */
    readonly example: string;
  }[];
  readonly oldest: string | null;
  readonly newest: string | null;
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

function places(values: readonly unknown[]): string {
  return values.map(() => '?').join(', ');
}
