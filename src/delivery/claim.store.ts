import type { ControlConnection, ControlPool, Row } from '../database/index.js';
import { type BoxTable, inLane } from './box-table.js';
import type { DueMessage } from './candidate.js';
import { type Crowd, exceptCrowds } from './crowd.js';
import { type Completion, ofClaim, outcomeSet, outcomeValues } from './outcome-columns.js';
import type { OutcomeRows, Send } from './outcome-writer.js';
import { exceptKinds, type Kind } from './paused-kinds.js';

export interface BatchRequest {
  readonly lane: number;
  readonly limit: number;
  /** Due time to start at: entries that were consumed before, but which a long snapshot keeps, are not walked again. */
  readonly from: string;
  readonly except: readonly Kind[];
  /** Left out while they are moved out of the queue. */
  readonly crowds?: readonly Crowd[];
  readonly token: Buffer;
  readonly claimMs: number;
}

/** What is to be claimed of the messages that were read. */
export interface Choice {
  readonly ids: readonly string[];
  /** Goes to `claimed_by`. */
  readonly claimant: string;
}

/**
 * Claims of instances that compete: no lease, the token alone is the fence. All instances read the same queue, SKIP
 * LOCKED, so that each gets messages of its own.
 */
export class ClaimStore implements OutcomeRows {
  readonly sendAlone: Send;
  readonly statusSql: string;
  private readonly completeSql: string;
  private readonly dueSql: string;

  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
  ) {
    this.sendAlone = (sql, values) => pool.execute(sql, values);
    this.statusSql = table.mapped`SELECT m.status AS status FROM ${table.name} m WHERE m.${table.id} = ?`;
    this.completeSql = `UPDATE ${table.name} m FORCE INDEX (PRIMARY) ${outcomeSet(table)} ${ofClaim(table)}`;
    this.dueSql = dueSql(table);
  }

  /** True when a lane has due messages. One look into the claim index; locks nothing. */
  async hasDue(lane: number, except: readonly Kind[]): Promise<boolean> {
    const { name, claimIndex } = this.table;
    const within = inLane(this.table, lane);
    const { sql, values } = exceptKinds(this.table, except);
    const rows = await this.pool.rows(
      this.table.mapped`SELECT 1 AS due FROM ${name} m FORCE INDEX (${claimIndex})
        WHERE m.status = 'pending' ${within.sql} AND m.next_attempt_at <= UTC_TIMESTAMP(3) ${sql} LIMIT 1`,
      [...within.values, ...values],
    );
    return rows.length > 0;
  }

  /**
   * Reads due messages in order of due time, then id, and claims those that `choose` picks, in one transaction; each
   * claim counts an attempt. `choose` gets the connection for reads of its own and may be called again after a deadlock.
   * Locks: the messages read, by the claim index and primary key, until the commit. Messages that somebody else has
   * locked are passed over.
   * @returns the messages that were read
   */
  async claimBatch(
    request: BatchRequest,
    choose: (due: readonly DueMessage[], tx: ControlConnection) => Promise<Choice>,
  ): Promise<readonly DueMessage[]> {
    const { lane, limit, from, except, crowds = [], token, claimMs } = request;
    const within = inLane(this.table, lane);
    const kinds = exceptKinds(this.table, except);
    const units = exceptCrowds(this.table, lane, crowds);
    const { name, id, words } = this.table;
    return this.pool.transaction(async (tx) => {
      const read = await tx.rows<DueMessage>(
        this.table.mapped`${this.dueSql} ${within.sql} ${kinds.sql} ${units.sql}
          ORDER BY m.next_attempt_at, m.${id} LIMIT ${Math.trunc(limit)} FOR UPDATE SKIP LOCKED`,
        [from, ...within.values, ...kinds.values, ...units.values],
      );
      const { ids, claimant } = await choose(read, tx);
      if (ids.length > 0) {
        await tx.query(
          this.table.mapped`UPDATE ${name} m FORCE INDEX (PRIMARY)
              SET m.status = '${words.working}', m.attempts = m.attempts + 1, m.claim_token = ?, m.claimed_by = ?,
                  m.claimed_until = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND, m.updated_at = UTC_TIMESTAMP(3)
            WHERE m.${id} IN (${places(ids)}) AND m.status = 'pending'`,
          [token, claimant, claimMs * 1000, ...ids],
        );
      }
      return read;
    });
  }

  /** Writes one outcome if the claim is still ours; the number of rows that changed. Locks: the message by primary key. */
  async complete(send: Send, completion: Completion): Promise<number> {
    const { claim } = completion;
    const values = [...outcomeValues(this.table.words, completion), claim.id, claim.token];
    return (await send(this.completeSql, values)).affectedRows;
  }

  /** As `complete`, by itself; true if the claim was still ours. */
  async abandon(completion: Completion): Promise<boolean> {
    return (await this.complete(this.sendAlone, completion)) === 1;
  }

  /**
   * Marks successes of one claim's messages in one statement; the number that was still ours.
   * Locks: the messages by primary key, in order.
   * @param send into a handler's transaction; otherwise by itself
   */
  succeed(token: Buffer, ids: readonly string[], send: Send = this.sendText): Promise<number> {
    const { words, open, finishedAt } = this.table;
    return this.move(
      this.table
        .mapped`m.status = '${words.done}', m.${open} = NULL, m.${finishedAt} = UTC_TIMESTAMP(3), m.error_kind = NULL, m.error_message = NULL,
       m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL`,
      [],
      token,
      ids,
      send,
    );
  }

  /** Gives messages back that were not started, the attempt taken off again: due as they were, or after `delayMs`. */
  release(token: Buffer, ids: readonly string[], delayMs = 0): Promise<number> {
    return this.move(
      this.table
        .mapped`m.status = 'pending', m.attempts = m.attempts - 1, m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL,
       m.next_attempt_at = IF(? = 0, m.next_attempt_at, UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND)`,
      [delayMs, delayMs * 1000],
      token,
      ids,
    );
  }

  /** The heartbeat: the claims live for `claimMs` from now. The number that is still ours. */
  extend(token: Buffer, ids: readonly string[], claimMs: number): Promise<number> {
    return this.move(
      this.table.mapped`m.claimed_until = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND`,
      [claimMs * 1000],
      token,
      ids,
    );
  }

  /** Those of the messages that are still claimed with the token. Locks nothing. */
  async stillOurs(token: Buffer, ids: readonly string[]): Promise<ReadonlySet<string>> {
    const { name, id, words } = this.table;
    const rows = await this.pool.withConnection((connection) =>
      connection.queryRows<Row & { id: string }>(
        this.table.mapped`SELECT CAST(m.${id} AS CHAR) AS id FROM ${name} m
          WHERE m.${id} IN (${places(ids)}) AND m.status = '${words.working}' AND m.claim_token = ?`,
        [...ids, token],
      ),
    );
    return new Set(rows.map((row) => row.id));
  }

  /** Where a message stands; null when it does not exist. Locks nothing. */
  async statusOf(id: string): Promise<{ status: string; token: Buffer | null } | null> {
    const rows = await this.pool.rows<Row & { status: string; token: Buffer | null }>(
      this.table
        .mapped`SELECT m.status AS status, m.claim_token AS token FROM ${this.table.name} m WHERE m.${this.table.id} = ?`,
      [id],
    );
    return rows[0] ?? null;
  }

  private async move(
    set: string,
    values: readonly unknown[],
    token: Buffer,
    ids: readonly string[],
    send: Send = this.sendText,
  ): Promise<number> {
    const { name, id, words } = this.table;
    const result = await send(
      this.table.mapped`UPDATE ${name} m FORCE INDEX (PRIMARY) SET ${set}, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${places(ids)}) AND m.status = '${words.working}' AND m.claim_token = ?`,
      [...values, ...ids, token],
    );
    return result.affectedRows;
  }

  /** Unprepared: each number of ids makes another statement. */
  private readonly sendText: Send = (sql, values) =>
    this.pool.withConnection((connection) => connection.query(sql, values));
}

function dueSql({ name, id, open, claimIndex, payload, source, type, mapped }: BoxTable): string {
  return mapped`SELECT CAST(m.${id} AS CHAR) AS id, ${source} AS source, ${type} AS type, CAST(m.attempts AS CHAR) AS attempts,
      m.error_kind AS error_kind, CAST(m.${open} AS CHAR) AS open, CAST(m.next_attempt_at AS CHAR) AS due, ${payload}
    FROM ${name} m FORCE INDEX (${claimIndex})
    WHERE m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3) AND m.next_attempt_at >= ?`;
}

function places(values: readonly unknown[]): string {
  return values.map(() => '?').join(', ');
}
