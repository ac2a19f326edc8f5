import { createHash } from 'node:crypto';
import { type ControlPool, isDuplicateKey, isLockUnavailable, type Row } from '../database/index.js';
import type { Lease } from '../lease/index.js';
import type { BoxTable } from './box-table.js';
import type { HandlerTransaction } from './handler-transaction.js';
import type { ClaimRequest, Send } from './lane.store.js';

const leaseJoin = 'FORCE INDEX (PRIMARY) JOIN mailroom_lease l ON l.name = ? AND l.fence = ? AND l.owner = ?';
/** Group rows that a process left behind when it ended; deleted this many at a time. */
const sweepSize = 100;

/** The statements of messages that are handled together. One claim, one token, many rows. */
export class LaneBatchStore {
  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
  ) {}

  /**
   * Claims many messages for the holder of the lane, counts an attempt for each, and returns the ids that are ours.
   * Locks: the messages by primary key, in order, the lane's lease row. Prevents: a claim by a holder that was
   * replaced, and of messages that somebody else moved meanwhile.
   */
  async claim(
    lease: Lease,
    ids: readonly string[],
    { token, claimant }: Pick<ClaimRequest, 'token' | 'claimant'>,
  ): Promise<Set<string>> {
    const { name, id } = this.table;
    const places = ids.map(() => '?').join(', ');
    const result = await this.pool.execute(
      `UPDATE ${name} m ${leaseJoin}
          SET m.status = 'processing', m.attempts = m.attempts + 1, m.claim_token = ?, m.claimed_by = ?,
              m.claimed_until = l.held_until, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${places}) AND m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3)
          AND l.held_until > UTC_TIMESTAMP(3)`,
      [lease.name, lease.fence, lease.owner, token, claimant, ...ids],
    );
    if (result.affectedRows === ids.length) return new Set(ids);
    if (result.affectedRows === 0) return new Set();
    const rows = await this.pool.rows<Row & { id: string }>(
      `SELECT CAST(m.${id} AS CHAR) AS id FROM ${name} m WHERE m.${id} IN (${places}) AND m.claim_token = ?`,
      [...ids, token],
    );
    return new Set(rows.map((row) => row.id));
  }

  /**
   * Marks the success of many claimed messages; returns how many rows changed. Anything but all of them: roll back.
   * Locks: the messages by primary key, the lane's lease row. Prevents: a success by a holder that was replaced (fence),
   * or for a claim that is not ours any more (token).
   */
  async succeed(send: Send, lease: Lease, ids: readonly string[], token: Buffer): Promise<number> {
    const { name, id, open, finishedAt } = this.table;
    const result = await send(
      `UPDATE ${name} m ${leaseJoin}
          SET m.status = 'success', m.${open} = NULL, m.${finishedAt} = UTC_TIMESTAMP(3), m.error_kind = NULL,
              m.error_message = NULL, m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL,
              m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${ids.map(() => '?').join(', ')}) AND m.status = 'processing' AND m.claim_token = ?`,
      [lease.name, lease.fence, lease.owner, ...ids, token],
    );
    return result.affectedRows;
  }

  /**
   * Gives claimed messages back, the attempt with them, to be due after `delayMs`; true if all were still ours.
   * Locks: the messages by primary key, the lane's lease row.
   */
  async giveBack(lease: Lease, ids: readonly string[], token: Buffer, delayMs: number): Promise<boolean> {
    const { name, id } = this.table;
    const result = await this.pool.execute(
      `UPDATE ${name} m ${leaseJoin}
          SET m.status = 'pending', m.attempts = m.attempts - 1,
              m.next_attempt_at = IF(? = 0, m.next_attempt_at, UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND),
              m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${ids.map(() => '?').join(', ')}) AND m.status = 'processing' AND m.claim_token = ?`,
      [lease.name, lease.fence, lease.owner, delayMs, delayMs * 1000, ...ids, token],
    );
    return result.affectedRows === ids.length;
  }

  /**
   * Takes a group for the time of the handler's transaction; false while another transaction has it. The lock is the
   * group's row itself, so it ends with the transaction, also when the process does.
   * Locks: the row by primary key, SKIP LOCKED. Prevents: two calls for one group at the same time.
   */
  async lockGroup(tx: HandlerTransaction, name: string): Promise<boolean> {
    if (!(await this.ensureGroup(name))) return false;
    const rows = await tx.rows('SELECT name FROM mailroom_lease WHERE name = ? FOR UPDATE SKIP LOCKED', [name]);
    return rows.length === 1;
  }

  /** In the transaction that has the group: its row goes with the commit, so that groups do not pile up. */
  async dropGroup(tx: HandlerTransaction, name: string): Promise<void> {
    await tx.send('DELETE FROM mailroom_lease WHERE name = ?', [name]);
  }

  /** Deletes group rows that were left behind. Locks: those that nobody has, by primary key. */
  async sweepGroups(): Promise<void> {
    await this.pool.transaction(async (tx) => {
      const rows = await tx.rows<Row & { name: string }>(
        `SELECT name FROM mailroom_lease WHERE name >= 'inbox:group:' AND name < 'inbox:group;'
          ORDER BY name LIMIT ${sweepSize} FOR UPDATE SKIP LOCKED`,
      );
      if (rows.length === 0) return;
      const places = rows.map(() => '?').join(', ');
      await tx.execute(
        `DELETE FROM mailroom_lease WHERE name IN (${places})`,
        rows.map((row) => row.name),
      );
    });
  }

  private async ensureGroup(name: string): Promise<boolean> {
    const [row] = await this.pool.rows('SELECT 1 AS one FROM mailroom_lease WHERE name = ?', [name]);
    if (row) return true;
    try {
      await this.pool.execute('INSERT INTO mailroom_lease (name) VALUES (?)', [name]);
    } catch (error) {
      // Somebody has inserted it and perhaps holds it already; the lock decides.
      if (isLockUnavailable(error)) return false;
      if (!isDuplicateKey(error)) throw error;
    }
    return true;
  }
}

/** The lock row of a group of one kind: names have a length limit, keys have none. */
export function groupName(source: string, type: string, group: string): string {
  return `inbox:group:${createHash('sha256').update(`${source}\0${type}\0${group}`).digest('hex').slice(0, 40)}`;
}
