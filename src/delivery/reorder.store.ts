import type { ControlPool, Row } from '../database/index.js';
import type { BoxTable } from './box-table.js';
import type { Send } from './lane.store.js';
import { isWaiting, type OpenMessage, type ReorderRule, type Turn, TurnOrder } from './turn.js';

/** Open messages of an entity that are looked at; those that arrived after them take part when they come within. */
const lookSize = 200;
/** Rows that one statement moves aside at most. */
const stepSize = 500;
/** Held messages that come back together. */
const returnSize = 50;
/** How long the last sequence of an entity is remembered. */
const rememberDays = 1;
const sweepSize = 500;

/** Where a message of a reordered type stands. */
export interface Position {
  readonly open: string;
  readonly sequence: string;
  /** A message of its entity with a higher sequence had succeeded when this one was handed over. */
  readonly late: boolean;
}

export interface Place {
  readonly turn: Turn;
  /** Null: the message is none of those that are put in order. */
  readonly position: Position | null;
  /** Which of the entity's messages have to step aside with it, if it has to. */
  readonly others: 'its like' | 'later ones' | 'all';
  /** Some messages of the entity have stepped aside. */
  readonly othersHeld: boolean;
}

/** What a message is, as far as its order is concerned. */
export interface Ordered {
  readonly id: string;
  readonly source: string;
  readonly open: string;
  /** Its due time, as the database wrote it. */
  readonly due: string;
}

interface LookRow extends OpenMessage {
  readonly last: string | null;
}

/**
 * The reorder window: messages of some types are handed over in order of their sequence instead of their arrival.
 *
 * Nothing is decided from memory: each hand-over looks at the entity's open messages anew, since one with a smaller
 * sequence may have arrived meanwhile.
 */
export class ReorderStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
    /** By source; null: its messages keep their order of arrival. */
    readonly ruleOf: (source: string) => ReorderRule | null,
  ) {}

  /**
   * Whether it is the message's turn. The messages `inWork` are taken for finished.
   * Locks nothing. Index: (open, id), 200 rows at most.
   */
  async placeOf(message: Ordered, inWork: ReadonlySet<string>): Promise<Place | null> {
    const rule = this.ruleOf(message.source);
    if (!rule) return null;
    const all = await this.look(message.open, rule);
    const open = all.filter(({ id }) => !inWork.has(id));
    const order = new TurnOrder(rule, message.source);
    const own = open.find(({ id }) => id === message.id);
    return {
      turn: order.turnOf(message.id, open, all.length < lookSize),
      position: own && own.sequence !== null && order.isReordered(own) ? positionOf(message.open, own) : null,
      others: !own ? 'all' : order.isReordered(own) ? 'later ones' : 'its like',
      othersHeld: open.some(({ status }) => status === 'held'),
    };
  }

  /**
   * Puts messages before another one in the queue, in the order given: due times one millisecond apart.
   * Locks: the messages by primary key, in order. Prevents: waking a message that waits for its retry or is in work.
   */
  async bringForward(earlier: readonly OpenMessage[], before: Ordered): Promise<void> {
    const { name, id } = this.table;
    const places = earlier.map(() => '?').join(', ');
    const ids = earlier.map((message) => message.id);
    // As text: 64-bit ids are not compared as floating point numbers.
    await this.pool.execute(
      this.table.mapped`UPDATE ${name} m FORCE INDEX (PRIMARY)
          SET m.next_attempt_at = CAST(? AS DATETIME(3)) - INTERVAL (? - FIELD(CAST(m.${id} AS CHAR), ${places})) * 1000 MICROSECOND,
              m.status = 'pending', m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${places}) AND m.status IN ('pending', 'held')
          AND (m.attempts = 0 OR m.next_attempt_at <= UTC_TIMESTAMP(3)) ORDER BY m.${id}`,
      [before.due, earlier.length + 1, ...ids, ...ids],
    );
  }

  /**
   * Moves up to 500 pending messages that wait for `head` out of the queue. With a message that is not put in order only
   * its like is moved: the others are asked again when their own window ends.
   * Locks: the messages by primary key, in order. Index: (open, id) to find them.
   */
  async stepAside(message: Ordered, others: Place['others'], head: OpenMessage): Promise<void> {
    const rule = this.ruleOf(message.source);
    if (!rule) return;
    const { name, id, openIndex } = this.table;
    const stays = this.staying(message.source, rule, others, head);
    const rows = await this.pool.rows<Row & { id: string }>(
      this.table.mapped`SELECT CAST(m.${id} AS CHAR) AS id FROM ${name} m FORCE INDEX (${openIndex})
        WHERE m.${this.table.open} = ? AND m.${id} <> ? AND m.status = 'pending' AND NOT (${stays.sql})
        ORDER BY m.${id} LIMIT ${stepSize}`,
      [message.open, head.id, ...stays.values],
    );
    const ids = rows.map((row) => row.id);
    if (ids.length > 0) await this.move('pending', 'held', ids);
    // The head may have been finished meanwhile, by somebody who found nobody aside.
    await this.comeBack(message.open, message.source);
  }

  /** Lets the message whose turn it is come back if it had stepped aside, with those that follow it. */
  async comeBack(open: string, source: string): Promise<void> {
    const rule = this.ruleOf(source);
    if (!rule) return;
    const messages = await this.look(open, rule);
    const order = new TurnOrder(rule, source);
    const head = order.headOf(messages);
    if (head?.status !== 'held') return;
    const following = order.isReordered(head) ? order.inOrder(messages, head.lane) : messages;
    const held = following.filter(({ status }) => status === 'held').slice(0, returnSize);
    await this.move(
      'held',
      'pending',
      held.map(({ id }) => id).sort((a, b) => (BigInt(a) < BigInt(b) ? -1 : 1)),
    );
  }

  /**
   * Remembers the highest sequence of an entity that succeeded, as part of the transaction that marks the success.
   * Locks: the entity's row by primary key.
   */
  async remember(send: Send, positions: readonly Position[]): Promise<void> {
    for (const { open, sequence } of positions) {
      await send(
        `INSERT INTO mailroom_sequence (open_entity, sequence, handled_at)
         VALUES (?, CAST(? AS SIGNED), UTC_TIMESTAMP(3))
         ON DUPLICATE KEY UPDATE sequence = GREATEST(sequence, CAST(? AS SIGNED)), handled_at = UTC_TIMESTAMP(3)`,
        [open, sequence, sequence],
      );
    }
  }

  /** Forgets up to 500 entities of which nothing was handled for a day. Locks: their rows by primary key, in order. */
  async sweep(): Promise<void> {
    const old = `handled_at < UTC_TIMESTAMP(3) - INTERVAL ${rememberDays} DAY`;
    const rows = await this.pool.rows<Row & { open: string }>(
      `SELECT CAST(s.open_entity AS CHAR) AS open FROM mailroom_sequence s FORCE INDEX (mailroom_sequence_age)
        WHERE s.${old} ORDER BY s.handled_at LIMIT ${sweepSize}`,
    );
    if (rows.length === 0) return;
    await this.pool.execute(
      `DELETE FROM mailroom_sequence WHERE open_entity IN (${rows.map(() => '?').join(', ')}) AND ${old} ORDER BY open_entity`,
      rows.map((row) => row.open),
    );
  }

  private staying(
    from: string,
    rule: ReorderRule,
    others: Place['others'],
    head: OpenMessage,
  ): { readonly sql: string; readonly values: readonly unknown[] } {
    const { id, source, type } = this.table;
    // Who is in work, or closed the entity, is before everything, whatever its sequence.
    const isOneOfThem = isWaiting(head) && new TurnOrder(rule, from).isReordered(head);
    if (others === 'all' || (others === 'later ones' && !isOneOfThem)) return { sql: 'FALSE', values: [] };
    const reordered = this.table
      .mapped`${source} = ? AND ${type} IN (${[...rule.types].map(() => '?').join(', ')}) AND m.sequence IS NOT NULL`;
    if (others === 'its like') return { sql: reordered, values: [from, ...rule.types] };
    return {
      sql: this.table
        .mapped`${reordered} AND (m.sequence < CAST(? AS SIGNED) OR (m.sequence = CAST(? AS SIGNED) AND m.${id} < ?))`,
      values: [from, ...rule.types, head.sequence, head.sequence, head.id],
    };
  }

  private look(open: string, { windowMs }: ReorderRule): Promise<LookRow[]> {
    const { name, id, openIndex, lane, source, type } = this.table;
    return this.pool.rows<LookRow>(
      this.table
        .mapped`SELECT CAST(m.${id} AS CHAR) AS id, ${source} AS source, ${type} AS type, ${lane ? `m.${lane}` : '0'} AS lane, m.status AS status,
              CAST(m.sequence AS CHAR) AS sequence, CAST(m.next_attempt_at <= UTC_TIMESTAMP(3) AS CHAR) AS is_due,
              CAST(m.attempts = 0 AND m.next_attempt_at = m.received_at + INTERVAL ? MICROSECOND AS CHAR) AS in_window,
              CAST(s.sequence AS CHAR) AS last
         FROM ${name} m FORCE INDEX (${openIndex}) LEFT JOIN mailroom_sequence s ON s.open_entity = m.${this.table.open}
        WHERE m.${this.table.open} = ? ORDER BY m.${id} LIMIT ${lookSize}`,
      [windowMs * 1000, open],
    );
  }

  private async move(from: 'pending' | 'held', to: 'pending' | 'held', ids: readonly string[]): Promise<void> {
    const { name, id } = this.table;
    await this.pool.execute(
      this.table.mapped`UPDATE ${name} m FORCE INDEX (PRIMARY) SET m.status = ?, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${ids.map(() => '?').join(', ')}) AND m.status = ? ORDER BY m.${id}`,
      [to, ...ids, from],
    );
  }
}

function positionOf(open: string, { sequence, last }: OpenMessage & { readonly last?: string | null }): Position {
  const own = sequence ?? '0';
  return { open, sequence: own, late: last !== null && last !== undefined && BigInt(own) < BigInt(last) };
}
