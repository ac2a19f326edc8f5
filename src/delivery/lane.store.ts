import type { ControlPool, Row } from '../database/index.js';
import type { Lease } from '../lease/index.js';
import type { BoxTable, StatusWords } from './box-table.js';
import type { Candidate } from './candidate.js';
import type { Claim, ClaimRequest } from './claim.js';
import { type Crowd, exceptCrowds } from './crowd.js';
import { NeighbourLookup, type Neighbours } from './neighbours.js';
import { type Completion, ofClaim, outcomeSet, outcomeValues } from './outcome-columns.js';
import type { OutcomeRows, Send } from './outcome-writer.js';
import { exceptKinds, type Kind } from './paused-kinds.js';

export type { Claim, ClaimRequest, Completion, Send };

/** The statements of a lane that is consumed in order. */
export class LaneStore implements OutcomeRows {
  private readonly readAheadSql: string;
  private readonly claimSql: string;
  private readonly completeSql: string;
  private readonly completeAndClaimSql: string;
  private readonly neighbours: NeighbourLookup;
  readonly sendAlone: Send;
  /** The status of one message, for use inside a handler's transaction. */
  readonly statusSql: string;

  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
  ) {
    this.neighbours = new NeighbourLookup(pool, table);
    this.readAheadSql = readAheadSql(table);
    this.claimSql = claimSql(table);
    this.completeSql = completeSql(table, false);
    this.completeAndClaimSql = completeSql(table, true);
    this.statusSql = table.mapped`SELECT m.status AS status FROM ${table.name} m WHERE m.${table.id} = ?`;
    this.sendAlone = (sql, values) => pool.execute(sql, values);
  }

  /**
   * Due messages of a lane in order of due time, then id, with their neighbours in the entity.
   * Locks nothing. Index: the claim index for the rows, the open index once per entity.
   * @param from due time to start at, as the database wrote it: entries that were consumed before, but which a long
   *   snapshot keeps in the index, are not walked again
   * @param except kinds that are left out
   * @param crowds left out while they are moved out of the queue
   */
  async readAhead(
    lane: number,
    limit: number,
    from: string,
    except: readonly Kind[] = [],
    crowds: readonly Crowd[] = [],
  ): Promise<Candidate[]> {
    const size = Math.trunc(limit);
    const kinds = exceptKinds(this.table, except);
    const units = exceptCrowds(this.table, lane, crowds);
    const rows = await this.pool.rows<Candidate>(
      this.table
        .mapped`${this.readAheadSql} ${kinds.sql} ${units.sql} ORDER BY m.next_attempt_at, m.${this.table.id} LIMIT ${size}`,
      [lane, from, ...kinds.values, ...units.values],
    );
    const neighbours = await this.neighbours.find(rows, size + 2);
    return rows.map((row) => ({ ...row, ...(neighbours.get(row.id) ?? alone) }));
  }

  /**
   * Claims one message for the holder of the lane, and counts the attempt.
   * Locks: the message by primary key, then the lane's lease row (shared). Prevents: a claim by a holder that was
   * replaced, and a claim of a message that somebody else moved meanwhile. True if the message is ours now.
   */
  async claim(lease: Lease, request: ClaimRequest): Promise<boolean> {
    const result = await this.pool.execute(this.claimSql, [...leaseKey(lease), ...claimValues(request), request.id]);
    return result.affectedRows === 1;
  }

  /**
   * Writes the outcome of a claimed message, and claims the next one in the same statement if there is one.
   * Returns the number of rows that changed: 1, or 2 with a next message. Anything else: see `completedBy`.
   * Locks: both messages by primary key, the lane's lease row (shared). Prevents: an outcome by a holder that was
   * replaced (fence), or for a claim that is not ours any more (token).
   */
  async complete(send: Send, lease: Lease, completion: Completion, next: ClaimRequest | null): Promise<number> {
    const { claim } = completion;
    const values = next
      ? [
          ...leaseKey(lease),
          ...bothValues(this.table.words, completion, next),
          claim.id,
          next.id,
          claim.id,
          claim.token,
          next.id,
        ]
      : [...leaseKey(lease), ...outcomeValues(this.table.words, completion), claim.id, claim.token];
    const result = await send(next ? this.completeAndClaimSql : this.completeSql, values);
    return result.affectedRows;
  }

  /**
   * True when the lane has due messages, or orphans whose claim has run out. One look into the claim index for each.
   * Locks nothing.
   */
  async hasWork(lane: number, except: readonly Kind[] = []): Promise<boolean> {
    const { name, claimIndex } = this.table;
    const { sql, values } = exceptKinds(this.table, except);
    const [row] = await this.pool.rows<Row & { work: string }>(
      this.table.mapped`SELECT CAST(EXISTS(SELECT 1 FROM ${name} m FORCE INDEX (${claimIndex})
                WHERE m.status = 'pending' AND m.lane = ? AND m.next_attempt_at <= UTC_TIMESTAMP(3) ${sql})
           OR EXISTS(SELECT 1 FROM ${name} m FORCE INDEX (${claimIndex})
                WHERE m.status = 'processing' AND m.lane = ? AND m.claimed_until <= UTC_TIMESTAMP(3)) AS CHAR) AS work`,
      [lane, ...values, lane],
    );
    return row?.work === '1';
  }

  /**
   * Writes an outcome other than success for a claim whose lane may have changed hands since; the token alone decides.
   * True if the claim was still ours. Locks: the message by primary key.
   */
  async abandon(completion: Completion): Promise<boolean> {
    const { claim } = completion;
    const result = await this.pool.execute(
      `UPDATE ${this.table.name} m FORCE INDEX (PRIMARY) ${outcomeSet(this.table)} ${ofClaim(this.table)}`,
      [...outcomeValues(this.table.words, completion), claim.id, claim.token],
    );
    return result.affectedRows === 1;
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

  /**
   * Extends running claims to the end of the lane's lease, after it was renewed.
   * Locks: the messages by primary key, the lane's lease row (shared).
   */
  async extend(lease: Lease, claims: readonly Claim[]): Promise<void> {
    for (const claim of claims) {
      await this.pool.execute(
        this.table
          .mapped`UPDATE ${this.table.name} m FORCE INDEX (PRIMARY) JOIN mailroom_lease l ON l.name = ? AND l.fence = ? AND l.owner = ?
            SET m.claimed_until = GREATEST(m.claimed_until, l.held_until), m.updated_at = UTC_TIMESTAMP(3)
          WHERE m.${this.table.id} = ? AND m.status = 'processing' AND m.claim_token = ?`,
        [...leaseKey(lease), claim.id, claim.token],
      );
    }
  }
}

const alone: Neighbours = { previous: null, next_status: null };

function leaseKey(lease: Lease): readonly string[] {
  return [lease.name, lease.fence, lease.owner];
}

function readAheadSql({ name, id, open, claimIndex, payload, source, type, mapped }: BoxTable): string {
  return mapped`SELECT CAST(m.${id} AS CHAR) AS id, ${source} AS source, ${type} AS type, CAST(m.attempts AS CHAR) AS attempts, m.error_kind AS error_kind,
      CAST(m.${open} AS CHAR) AS open, CAST(m.next_attempt_at AS CHAR) AS due,
      ${payload}
    FROM ${name} m FORCE INDEX (${claimIndex})
    WHERE m.status = 'pending' AND m.lane = ? AND m.next_attempt_at <= UTC_TIMESTAMP(3) AND m.next_attempt_at >= ?`;
}

const joinLease = 'FORCE INDEX (PRIMARY) JOIN mailroom_lease l ON l.name = ? AND l.fence = ? AND l.owner = ?';
/** A claim ends with the lane's lease, or after its own time. */
const claimedUntil = 'IF(? IS NULL, l.held_until, UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND)';

function claimSql({ name, id, mapped }: BoxTable): string {
  return mapped`UPDATE ${name} m ${joinLease}
    SET m.status = 'processing', m.attempts = m.attempts + 1, m.claim_token = ?, m.claimed_by = ?,
        m.claimed_until = ${claimedUntil}, m.updated_at = UTC_TIMESTAMP(3)
    WHERE m.${id} = ? AND m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3) AND l.held_until > UTC_TIMESTAMP(3)`;
}

function claimValues({ token, claimant, claimMs }: ClaimRequest): readonly unknown[] {
  const micros = claimMs === null ? null : claimMs * 1000;
  return [token, claimant, micros, micros ?? 0];
}

function completeSql(table: BoxTable, withNext: boolean): string {
  const { name, id, open, finishedAt, mapped } = table;
  if (!withNext) return `UPDATE ${name} m ${joinLease} ${outcomeSet(table)} ${ofClaim(table)}`;
  const pick = (done: string, next: string) => `IF(m.${id} = ?, ${done}, ${next})`;
  return mapped`UPDATE ${name} m ${joinLease}
    SET m.status = ${pick('?', "'processing'")}, m.attempts = ${pick(mapped`m.attempts - ?`, mapped`m.attempts + 1`)},
        m.next_attempt_at = ${pick(mapped`IF(? IS NULL, m.next_attempt_at, UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND)`, mapped`m.next_attempt_at`)},
        m.${open} = ${pick(`IF(?, NULL, m.${open})`, `m.${open}`)},
        m.${finishedAt} = ${pick(`IF(?, UTC_TIMESTAMP(3), m.${finishedAt})`, `m.${finishedAt}`)},
        m.error_kind = ${pick('?', mapped`m.error_kind`)}, m.error_message = ${pick('?', mapped`m.error_message`)},
        m.claim_token = ${pick('NULL', '?')}, m.claimed_by = ${pick('NULL', '?')},
        m.claimed_until = ${pick('NULL', claimedUntil)}, m.updated_at = UTC_TIMESTAMP(3)
    WHERE m.${id} IN (?, ?)
      AND ((m.${id} = ? AND m.status = 'processing' AND m.claim_token = ?)
        OR (m.${id} = ? AND m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3) AND l.held_until > UTC_TIMESTAMP(3)))`;
}

function bothValues(words: StatusWords, completion: Completion, next: ClaimRequest): readonly unknown[] {
  const id = completion.claim.id;
  const [status, attempts, due, dueAgain, closed, finished, kind, message] = outcomeValues(words, completion);
  const [token, claimant, claimMs, claimMsAgain] = claimValues(next);
  return [id, status, id, attempts, id, due, dueAgain, id, closed, id, finished, id, kind, id, message].concat([
    id,
    token,
    id,
    claimant,
    id,
    claimMs,
    claimMsAgain,
  ]) as readonly unknown[];
}
