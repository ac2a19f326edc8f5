import type { ControlPool, Row } from '../database/index.js';
import { archiveMessages, type RunBox } from '../delivery/runs/index.js';
import { cutoff, type PurgeJob, type PurgeStep, places } from './purge-job.js';

export interface MessagePurgeRule {
  readonly status: string;
  /** Since its end; where that was not written down, since its last change or its arrival. */
  readonly olderThanMs: number;
  /** True: into the archive, with the reason `retention`. */
  readonly archive: boolean;
}

interface Place {
  readonly lane: number;
  readonly due: string;
  readonly id: string;
}

const start: Place = { lane: 0, due: '1970-01-01 00:00:00.000', id: '0' };

/** Takes messages of one status out of a box. */
export class MessagePurge implements PurgeJob {
  readonly name: string;
  /** Where the last look ended: entries that are deleted, or not old enough, are not walked again in this pass. */
  private place = start;

  constructor(
    private readonly pool: ControlPool,
    private readonly box: RunBox,
    private readonly rule: MessagePurgeRule,
  ) {
    this.name = `${box.name}_message.${rule.status}`;
  }

  async step(limit: number): Promise<PurgeStep> {
    const found = await this.look(limit);
    if (found.length > 0) return { purged: await this.take(found), more: true };
    const lane = await this.nextLane(this.place.lane);
    this.place = lane === null ? start : { ...start, lane };
    return { purged: 0, more: lane !== null };
  }

  /**
   * How many are old enough now, up to `countTo`, for a person who asks before. Locks nothing.
   * Index: in each lane the range of the claim index in which `look` finds them, so that young ones are not read.
   */
  async count(countTo: number): Promise<number> {
    const { table, claimIndex } = this.box;
    let counted = 0;
    for (let lane: number | null = start.lane; lane !== null && counted < countTo; lane = await this.nextLane(lane)) {
      const rows = await this.pool.rows(
        this.box.mapped`SELECT 1 AS one FROM ${table} m FORCE INDEX (${claimIndex})
          WHERE ${this.condition} ${this.inLane} AND m.next_attempt_at < ${cutoff}
          LIMIT ${Math.trunc(countTo - counted)}`,
        [...this.values, ...(this.hasLanes ? [lane] : []), this.rule.olderThanMs * 1000],
      );
      counted += rows.length;
    }
    return counted;
  }

  /**
   * The next ones by their due time, which is never after their end. Locks nothing.
   * Index: the claim index alone, one range of it.
   */
  private async look(limit: number): Promise<string[]> {
    const { table, claimIndex } = this.box;
    const { lane, due, id } = this.place;
    const rows = await this.pool.rows<Row & { id: string; due: string }>(
      this.box
        .mapped`SELECT CAST(m.id AS CHAR) AS id, CAST(m.next_attempt_at AS CHAR) AS due FROM ${table} m FORCE INDEX (${claimIndex})
        WHERE m.status = ? ${this.inLane} AND m.next_attempt_at >= ?
          AND (m.next_attempt_at > ? OR m.id > ?) AND m.next_attempt_at < ${cutoff}
        ORDER BY m.next_attempt_at, m.id LIMIT ${Math.trunc(limit)}`,
      [this.rule.status, ...(this.hasLanes ? [lane] : []), due, due, id, this.rule.olderThanMs * 1000],
    );
    const last = rows.at(-1);
    if (last) this.place = { lane, due: last.due, id: last.id };
    return rows.map((row) => row.id);
  }

  /** The smallest one above this lane that has messages of the status: one entry of the claim index. */
  private async nextLane(lane: number): Promise<number | null> {
    if (!this.hasLanes) return null;
    const { table, claimIndex } = this.box;
    const [row] = await this.pool.rows<Row & { lane: number }>(
      this.box
        .mapped`SELECT m.lane AS lane FROM ${table} m FORCE INDEX (${claimIndex}) WHERE m.status = ? AND m.lane > ? ORDER BY m.lane LIMIT 1`,
      [this.rule.status, lane],
    );
    return row ? Number(row.lane) : null;
  }

  /**
   * Locks the rows by primary key in order, except those that somebody else has, and decides with them locked: a message
   * that was replayed meanwhile stays.
   */
  private take(ids: readonly string[]): Promise<number> {
    const { table } = this.box;
    return this.pool.transaction(async (tx) => {
      const rows = await tx.queryRows<Row & { id: string }>(
        this.box.mapped`SELECT CAST(m.id AS CHAR) AS id FROM ${table} m FORCE INDEX (PRIMARY)
          WHERE m.id IN (${places(ids)}) AND ${this.condition} ORDER BY m.id FOR UPDATE SKIP LOCKED`,
        [...ids, ...this.values],
      );
      const taken = rows.map(({ id }) => id);
      if (taken.length === 0) return 0;
      if (this.rule.archive) await archiveMessages(tx, this.box, taken, 'retention', null);
      const id = this.box.column('id');
      const { affectedRows } = await tx.query(
        `DELETE FROM ${table} WHERE ${id} IN (${places(taken)}) ORDER BY ${id}`,
        taken,
      );
      return affectedRows;
    });
  }

  /** A failed message that parks its entity has its hash still: it stays, or its followers would wait for ever. */
  private get condition(): string {
    const { finishedAt, receivedAt, open, column } = this.box;
    return this.box
      .mapped`m.status = ? AND m.${column(open)} IS NULL AND COALESCE(m.${column(finishedAt)}, m.updated_at, m.${column(receivedAt)}) < ${cutoff}`;
  }

  private get values(): readonly unknown[] {
    return [this.rule.status, this.rule.olderThanMs * 1000];
  }

  private get inLane(): string {
    return this.hasLanes ? this.box.mapped`AND m.lane = ?` : '';
  }

  private get hasLanes(): boolean {
    return this.box.name === 'inbox';
  }
}
