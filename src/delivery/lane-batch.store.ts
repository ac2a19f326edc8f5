import type { ControlPool, Row } from '../database/index.js';
import type { Lease } from '../lease/index.js';
import type { BoxTable } from './box-table.js';
import type { ClaimRequest, Send } from './lane.store.js';

const leaseJoin = 'FORCE INDEX (PRIMARY) JOIN mailroom_lease l ON l.name = ? AND l.fence = ? AND l.owner = ?';

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
    const { name, id, words } = this.table;
    const places = ids.map(() => '?').join(', ');
    const result = await this.pool.execute(
      this.table.mapped`UPDATE ${name} m ${leaseJoin}
          SET m.status = '${words.working}', m.attempts = m.attempts + 1, m.claim_token = ?, m.claimed_by = ?,
              m.claimed_until = l.held_until, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${places}) AND m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3)
          AND l.held_until > UTC_TIMESTAMP(3)`,
      [lease.name, lease.fence, lease.owner, token, claimant, ...ids],
    );
    if (result.affectedRows === ids.length) return new Set(ids);
    if (result.affectedRows === 0) return new Set();
    const rows = await this.pool.rows<Row & { id: string }>(
      this.table
        .mapped`SELECT CAST(m.${id} AS CHAR) AS id FROM ${name} m WHERE m.${id} IN (${places}) AND m.claim_token = ?`,
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
    const { name, id, open, finishedAt, words } = this.table;
    const result = await send(
      this.table.mapped`UPDATE ${name} m ${leaseJoin}
          SET m.status = '${words.done}', m.${open} = NULL, m.${finishedAt} = UTC_TIMESTAMP(3), m.error_kind = NULL,
              m.error_message = NULL, m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL,
              m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${ids.map(() => '?').join(', ')}) AND m.status = '${words.working}' AND m.claim_token = ?`,
      [lease.name, lease.fence, lease.owner, ...ids, token],
    );
    return result.affectedRows;
  }

  /**
   * Gives claimed messages back, the attempt with them, to be due after `delayMs`; true if all were still ours.
   * Locks: the messages by primary key, the lane's lease row.
   */
  async giveBack(lease: Lease, ids: readonly string[], token: Buffer, delayMs: number): Promise<boolean> {
    const { name, id, words } = this.table;
    const result = await this.pool.execute(
      this.table.mapped`UPDATE ${name} m ${leaseJoin}
          SET m.status = 'pending', m.attempts = m.attempts - 1,
              m.next_attempt_at = IF(? = 0, m.next_attempt_at, UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND),
              m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.${id} IN (${ids.map(() => '?').join(', ')}) AND m.status = '${words.working}' AND m.claim_token = ?`,
      [lease.name, lease.fence, lease.owner, delayMs, delayMs * 1000, ...ids, token],
    );
    return result.affectedRows === ids.length;
  }
}
