import type { ControlPool, Row } from '../database/index.js';
import { cutoff, type PurgeJob, type PurgeStep, places } from './purge-job.js';

/** Old rows of an archive: those at the head of the primary key, which follows the time. */
export class ArchivePurge implements PurgeJob {
  readonly name: string;

  constructor(
    private readonly pool: ControlPool,
    box: 'inbox' | 'outbox',
    private readonly olderThanMs: number,
  ) {
    this.name = `${box}_message_archive`;
  }

  async step(limit: number): Promise<PurgeStep> {
    // Nobody changes a row of an archive, so what is old stays old until the DELETE.
    const rows = await this.pool.rows<Row & { id: string; old: string }>(
      `SELECT CAST(a.archive_id AS CHAR) AS id, CAST(a.archived_at < ${cutoff} AS CHAR) AS old FROM ${this.name} a
        ORDER BY a.archive_id LIMIT ${Math.trunc(limit)}`,
      [this.olderThanMs * 1000],
    );
    const old = rows.filter((row) => row.old === '1').map(({ id }) => id);
    if (old.length === 0) return { purged: 0, more: false };
    const purged = await this.pool.withConnection(async (connection) => {
      const { affectedRows } = await connection.query(
        `DELETE FROM ${this.name} WHERE archive_id IN (${places(old)}) ORDER BY archive_id`,
        old,
      );
      return affectedRows;
    });
    return { purged, more: old.length === rows.length };
  }
}

/** Replay runs that ended, with their messages' outcomes: those first, and the run when none is left. */
export class RunPurge implements PurgeJob {
  readonly name = 'replay_run';

  constructor(
    private readonly pool: ControlPool,
    private readonly olderThanMs: number,
  ) {}

  async step(limit: number): Promise<PurgeStep> {
    for (const state of ['done', 'cancelled']) {
      const run = await this.oldest(state);
      if (run !== null) return { purged: await this.take(run, state, limit), more: true };
    }
    return { purged: 0, more: false };
  }

  /** Index: replay_run_state; the first that is old enough. Runs are kept for long, so they are few. */
  private async oldest(state: string): Promise<string | null> {
    const [row] = await this.pool.rows<Row & { id: string }>(
      `SELECT CAST(r.id AS CHAR) AS id FROM replay_run r FORCE INDEX (replay_run_state)
        WHERE r.state = ? AND r.finished_at < ${cutoff} ORDER BY r.id LIMIT 1`,
      [state, this.olderThanMs * 1000],
    );
    return row?.id ?? null;
  }

  /** Locks the run, so that it is not resumed meanwhile. Counts its messages; the run itself is one more. */
  private take(run: string, state: string, limit: number): Promise<number> {
    return this.pool.transaction(async (tx) => {
      const held = await tx.rows('SELECT 1 AS one FROM replay_run WHERE id = ? AND state = ? FOR UPDATE', [run, state]);
      if (held.length === 0) return 0;
      const items = await tx.execute(
        `DELETE FROM replay_item WHERE run_id = ? ORDER BY run_id, message_id LIMIT ${Math.trunc(limit)}`,
        [run],
      );
      if (items.affectedRows > 0) return items.affectedRows;
      return (await tx.execute('DELETE FROM replay_run WHERE id = ?', [run])).affectedRows;
    });
  }
}

/** What `processOnce` remembers. */
export class ProcessedPurge implements PurgeJob {
  readonly name = 'mailroom_processed';

  constructor(
    private readonly pool: ControlPool,
    private readonly olderThanMs: number,
  ) {}

  async step(limit: number): Promise<PurgeStep> {
    const rows = await this.pool.rows<Row & { consumer: string; message: Buffer }>(
      `SELECT p.consumer, p.message_id AS message FROM mailroom_processed p FORCE INDEX (mailroom_processed_age)
        WHERE p.processed_at < ${cutoff} ORDER BY p.processed_at LIMIT ${Math.trunc(limit)}`,
      [this.olderThanMs * 1000],
    );
    if (rows.length === 0) return { purged: 0, more: false };
    const purged = await this.pool.withConnection(async (connection) => {
      // Each of them by its primary key.
      const { affectedRows } = await connection.query(
        `DELETE FROM mailroom_processed WHERE ${rows.map(() => '(consumer = ? AND message_id = ?)').join(' OR ')}`,
        rows.flatMap(({ consumer, message }) => [consumer, message]),
      );
      return affectedRows;
    });
    return { purged, more: rows.length === limit };
  }
}

/** Rows that `strictOrder` locks, when their keys are out of use. */
export class OrderKeyPurge implements PurgeJob {
  readonly name = 'mailroom_order_key';
  private after = '0';
  private first = true;

  constructor(
    private readonly pool: ControlPool,
    private readonly olderThanMs: number,
  ) {}

  /** Walks the table by its primary key, a batch at a time; a row that an open transaction has locked is skipped. */
  async step(limit: number): Promise<PurgeStep> {
    const rows = await this.pool.rows<Row & { unit: string }>(
      `SELECT CAST(k.order_unit AS CHAR) AS unit FROM mailroom_order_key k
        WHERE k.order_unit ${this.first ? '>=' : '>'} ? ORDER BY k.order_unit LIMIT ${Math.trunc(limit)}`,
      [this.after],
    );
    this.first = rows.length < limit;
    this.after = this.first ? '0' : (rows.at(-1)?.unit ?? '0');
    if (rows.length === 0) return { purged: 0, more: false };
    const purged = await this.take(rows.map(({ unit }) => unit));
    return { purged, more: rows.length === limit };
  }

  private take(units: readonly string[]): Promise<number> {
    return this.pool.transaction(async (tx) => {
      const old = await tx.queryRows<Row & { unit: string }>(
        `SELECT CAST(k.order_unit AS CHAR) AS unit FROM mailroom_order_key k
          WHERE k.order_unit IN (${places(units)}) AND k.used_at < ${cutoff} ORDER BY k.order_unit FOR UPDATE SKIP LOCKED`,
        [...units, this.olderThanMs * 1000],
      );
      if (old.length === 0) return 0;
      const { affectedRows } = await tx.query(
        `DELETE FROM mailroom_order_key WHERE order_unit IN (${places(old)}) ORDER BY order_unit`,
        old.map(({ unit }) => unit),
      );
      return affectedRows;
    });
  }
}
