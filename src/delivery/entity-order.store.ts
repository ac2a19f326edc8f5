import type { ControlPool, Row } from '../database/index.js';
import type { BoxTable } from './box-table.js';
import { inSequence, NeighbourLookup } from './neighbours.js';
import type { ReorderStore } from './reorder.store.js';

/** Rows that one statement moves at most where its caller waits for it. */
const stepSize = 500;

/** What one step moved. */
export interface Aside {
  readonly moved: number;
  /** The last one of them; null: none was moved. */
  readonly last: string | null;
  /** The order unit's oldest unfinished message afterwards; null: there is none, or it is not kept in order of arrival. */
  readonly head: string | null;
  /** True: there may be more behind the last one. */
  readonly more: boolean;
}

/**
 * Followers of a waiting message step aside, and come back when their turn is next.
 *
 * Both sides store first and look afterwards: who steps followers aside looks once more whether their head is still
 * open; who finishes a head looks for followers after its commit. Whatever the interleaving, one of the two sees the
 * other. A process that dies between the two steps is made good by `repair`.
 */
export class EntityOrderStore {
  private readonly neighbours: NeighbourLookup;

  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
    /** Takes over for sources whose messages are not handed over in order of arrival. */
    readonly reorder: ReorderStore | null = null,
  ) {
    this.neighbours = new NeighbourLookup(pool, table);
  }

  /**
   * Moves up to `limit` pending messages of an order unit out of the queue: `from`, which waits for another one, and those
   * behind it. Locks: them, by primary key, in order. Index: (open, id) from `from` on, so that those that were moved
   * before are not walked through again: from the head on, 100,000 of them would take 200 walks.
   */
  async stepAside(open: string, from: string, limit = stepSize): Promise<Aside> {
    const { name, id, openIndex } = this.table;
    const rows = await this.pool.rows<Row & { id: string }>(
      this.table.mapped`SELECT CAST(m.${id} AS CHAR) AS id FROM ${name} m FORCE INDEX (${openIndex})
        WHERE m.${this.table.open} = ? AND m.${id} >= ? AND m.status = 'pending' ORDER BY m.${id} LIMIT ${Math.trunc(limit)}`,
      [open, from],
    );
    const ids = rows.map((row) => row.id);
    await this.moveByIds('pending', 'held', ids);
    const head = await this.comeBack(open);
    return { moved: ids.length, last: ids.at(-1) ?? null, head, more: ids.length === Math.trunc(limit) };
  }

  /**
   * Lets the entity's oldest unfinished message come back if it had stepped aside, unless it is closed off by a
   * failure that a person has to decide on. Cheap when there is nothing to do: one look into the open index.
   * Returns that message's id; null: there is none, or the entity is not kept in order of arrival.
   */
  async comeBack(open: string): Promise<string | null> {
    const { name, id, openIndex, sequence } = this.table;
    const position = sequence ? `CAST(m.${sequence} AS CHAR)` : 'NULL';
    const all = await this.pool.rows<Row & { id: string; status: string; source: string; sequence: string | null }>(
      this.table
        .mapped`SELECT CAST(m.${id} AS CHAR) AS id, m.status AS status, ${this.table.source} AS source, ${position} AS sequence FROM ${name} m FORCE INDEX (${openIndex})
        WHERE m.${this.table.open} = ? ORDER BY m.${id} LIMIT ${sequence ? sequencedAtMost : followersPerReturn}`,
      [open],
    );
    const rows = inSequence(all, this.table);
    const [first] = rows;
    if (!first) return null;
    if (this.reorder?.ruleOf(first.source)) {
      await this.reorder.comeBack(open, first.source);
      return null;
    }
    if (first.status === 'held') {
      const held = rows.filter((row) => row.status === 'held').map((row) => row.id);
      await this.moveByIds('held', 'pending', held.slice(0, followersPerReturn));
    }
    return first.id;
  }

  /** As `stepAside`, for messages that were read: with a sequence, those that follow are not those with higher ids. */
  async stepAsideThese(open: string, ids: readonly string[]): Promise<void> {
    await this.moveByIds('pending', 'held', ids);
    await this.comeBack(open);
  }

  /**
   * As `comeBack`, for at most 50 entities, most of which have nobody waiting: one look for all of them.
   * True if somebody came back.
   */
  async comeBackAll(opens: readonly string[]): Promise<boolean> {
    const waiting = (await this.neighbours.heads(opens)).filter(({ status }) => status === 'held');
    for (const { open } of waiting) await this.comeBack(open);
    return waiting.length > 0;
  }

  /**
   * Lets messages that stepped aside come back whatever is before them, at most 500; true if there may be more. For a
   * box whose order is not kept any more. Index: the claim index, of which only the held part is read.
   */
  async releaseHeld(): Promise<boolean> {
    const { name, id, claimIndex } = this.table;
    const rows = await this.pool.rows<Row & { id: string }>(
      this.table
        .mapped`SELECT CAST(m.${id} AS CHAR) AS id FROM ${name} m FORCE INDEX (${claimIndex}) WHERE m.status = 'held' LIMIT ${stepSize}`,
    );
    if (rows.length > 0) {
      await this.moveByIds(
        'held',
        'pending',
        rows.map((row) => row.id),
      );
    }
    return rows.length === stepSize;
  }

  /**
   * Sweeps for entities whose oldest unfinished message is aside although nothing is before it: what a process that
   * died between two steps left behind. Looks at the next held messages after `after` and returns where it got to,
   * null at the end. Index: the claim index, of which only the held part is read.
   */
  async repair(after: SweepPosition | null, limit: number): Promise<SweepPosition | null> {
    const { name, id, open, claimIndex, lane: column } = this.table;
    const { lane, due, id: afterId } = after ?? { lane: -1, due: '1000-01-01 00:00:00.000', id: '0' };
    const later = this.table.mapped`(m.next_attempt_at > ? OR (m.next_attempt_at = ? AND m.${id} > ?))`;
    const rows = await this.pool.rows<Row & { id: string; open: string; source: string; lane: number; due: string }>(
      this.table
        .mapped`SELECT CAST(m.${id} AS CHAR) AS id, CAST(m.${open} AS CHAR) AS open, ${this.table.source} AS source,
              ${column ? `m.${column}` : '0'} AS lane, CAST(m.next_attempt_at AS CHAR) AS due
         FROM ${name} m FORCE INDEX (${claimIndex})
        WHERE m.status = 'held' AND ${column ? `(m.${column} > ? OR (m.${column} = ? AND ${later}))` : later}
        ORDER BY ${column ? `m.${column}, ` : ''}m.next_attempt_at, m.${id} LIMIT ${Math.trunc(limit)}`,
      [...(column ? [lane, lane] : []), due, due, afterId],
    );
    const places = await this.neighbours.find(rows, 1);
    const reordered = new Set<string>();
    for (const row of rows) {
      if (this.reorder?.ruleOf(row.source)) reordered.add(row.open);
      else if (places.get(row.id)?.previous === null) await this.comeBack(row.open);
    }
    for (const entity of reordered) await this.comeBack(entity);
    const last = rows.at(-1);
    return rows.length < limit || !last ? null : { lane: last.lane, due: last.due, id: last.id };
  }

  private async moveByIds(from: 'pending' | 'held', to: 'pending' | 'held', ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    const places = ids.map(() => '?').join(', ');
    // Not prepared: lists have many lengths, and a prepared statement takes 65,535 values at most.
    await this.pool.withConnection((connection) =>
      connection.query(
        this.table
          .mapped`UPDATE ${this.table.name} m FORCE INDEX (PRIMARY) SET m.status = ?, m.updated_at = UTC_TIMESTAMP(3)
          WHERE m.${this.table.id} IN (${places}) AND m.status = ? ORDER BY m.${this.table.id}`,
        [to, ...ids, from],
      ),
    );
  }
}

/** Where a sweep over the held messages got to, in the order of the claim index. */
export interface SweepPosition {
  readonly lane: number;
  readonly due: string;
  readonly id: string;
}

/** How many held followers come back together: enough that returning costs a fraction of a statement per message. */
const followersPerReturn = 50;
/** Messages of an order unit with a sequence that are put in order. */
const sequencedAtMost = 200;
