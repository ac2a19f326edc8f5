import type { ControlPool, Row } from '../database/index.js';
import type { Claim, ToldMessage } from '../delivery/index.js';
import { outboxTable } from './outbox-table.js';

/** Rows that one statement moves at most. */
const stepSize = 500;

/**
 * Receivers that were offline. A wake counts `wake_seq` up first and looks for parked messages afterwards; parking checks
 * that the count is still the one from before the send, and looks once more afterwards. Whatever the interleaving, one
 * of the two sees the other, so a receiver that connects between an offline answer and the park is never missed.
 */
export class ReceiverStore {
  constructor(private readonly pool: ControlPool) {}

  /** How often each receiver was woken so far; 0 for one that never was. Locks nothing. */
  async wakeCounts(receivers: readonly Buffer[]): Promise<Map<string, string>> {
    const counts = new Map<string, string>();
    if (receivers.length === 0) return counts;
    const rows = await this.pool.withConnection((connection) =>
      connection.queryRows<Row & { receiver: Buffer; seq: string }>(
        `SELECT receiver, CAST(wake_seq AS CHAR) AS seq FROM mailroom_receiver
          WHERE receiver IN (${receivers.map(() => '?').join(', ')})`,
        receivers,
      ),
    );
    for (const { receiver, seq } of rows) counts.set(receiver.toString('hex'), seq);
    return counts;
  }

  /**
   * Parks a claimed message unless its receiver was woken since `wakeCount` was read; the attempt is taken off again.
   * Locks: the message by primary key, and the receiver's row.
   */
  async park(
    { id, token }: Claim,
    wakeCount: string,
    times: { readonly recheckMs: number; readonly expiryMs: number },
  ): Promise<'parked' | 'woken' | 'lost'> {
    const result = await this.pool.execute(
      `UPDATE outbox_message m FORCE INDEX (PRIMARY) LEFT JOIN mailroom_receiver r ON r.receiver = m.receiver
          SET m.status = 'parked', m.attempts = m.attempts - 1,
              m.next_attempt_at = UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND,
              m.expires_at = COALESCE(m.expires_at, UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND),
              m.error_kind = 'offline', m.error_message = 'the receiver is offline',
              m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.id = ? AND m.status = 'sending' AND m.claim_token = ? AND COALESCE(r.wake_seq, 0) = ?`,
      [times.recheckMs * 1000, times.expiryMs * 1000, id, token, wakeCount],
    );
    if (result.affectedRows > 0) return (await this.wasWoken(id, wakeCount)) ? 'woken' : 'parked';
    const rows = await this.pool.rows<Row & { token: Buffer | null }>(
      'SELECT claim_token AS token FROM outbox_message WHERE id = ?',
      [id],
    );
    return rows[0]?.token?.equals(token) ? 'woken' : 'lost';
  }

  /** The receiver is there: its parked messages are due now. Returns how many. Locks: them, by primary key, in batches. */
  async wake(receiver: Buffer): Promise<number> {
    await this.pool.execute(
      `INSERT INTO mailroom_receiver (receiver, wake_seq, woken_at) VALUES (?, 1, UTC_TIMESTAMP(3))
        ON DUPLICATE KEY UPDATE wake_seq = wake_seq + 1, woken_at = UTC_TIMESTAMP(3)`,
      [receiver],
    );
    let woken = 0;
    for (;;) {
      const rows = await this.pool.rows<Row & { id: string }>(
        `SELECT CAST(m.id AS CHAR) AS id FROM outbox_message m FORCE INDEX (outbox_receiver)
          WHERE m.receiver = ? AND m.status = 'parked' ORDER BY m.created_at LIMIT ${stepSize}`,
        [receiver],
      );
      const moved = await this.unpark(rows.map((row) => row.id));
      woken += moved;
      if (rows.length < stepSize || moved === 0) return woken;
    }
  }

  /**
   * Parked messages whose time has come: those that expired end as dead, the others are tried again. Returns the ids of
   * the dead ones and whether there may be more. Index: the claim index, of which only the parked part is read.
   */
  async recheck(): Promise<{
    readonly expired: readonly ExpiredMessage[];
    readonly tried: number;
    readonly more: boolean;
  }> {
    const { source, type, told } = outboxTable;
    const due = await this.pool.rows<ExpiredMessage & { expired: number }>(
      `SELECT CAST(m.id AS CHAR) AS id, ${source} AS source, ${type} AS type, CAST(m.attempts AS CHAR) AS attempts,
              CAST(m.open_unit AS CHAR) AS open, ${told},
              CAST(m.expires_at <= UTC_TIMESTAMP(3) AS SIGNED) AS expired
         FROM outbox_message m FORCE INDEX (outbox_claim)
        WHERE m.status = 'parked' AND m.next_attempt_at <= UTC_TIMESTAMP(3) ORDER BY m.next_attempt_at, m.id LIMIT ${stepSize}`,
    );
    const expired = due.filter((row) => Number(row.expired) === 1);
    if (expired.length > 0) {
      const ids = expired.map(({ id }) => id);
      await this.pool.withConnection((connection) =>
        connection.query(
          `UPDATE outbox_message FORCE INDEX (PRIMARY)
              SET status = 'dead', open_unit = NULL, error_kind = 'expired',
                  error_message = 'the receiver stayed offline until the message expired',
                  sent_at = UTC_TIMESTAMP(3), updated_at = UTC_TIMESTAMP(3)
            WHERE id IN (${ids.map(() => '?').join(', ')}) AND status = 'parked' ORDER BY id`,
          ids,
        ),
      );
    }
    const tried = await this.unpark(due.filter((row) => Number(row.expired) !== 1).map(({ id }) => id));
    return { expired, tried, more: due.length === stepSize };
  }

  /** Parked although the receiver had just been woken: then it is due at once after all. */
  private async wasWoken(id: string, wakeCount: string): Promise<boolean> {
    const result = await this.pool.execute(
      `UPDATE outbox_message m FORCE INDEX (PRIMARY) JOIN mailroom_receiver r ON r.receiver = m.receiver
          SET m.status = 'pending', m.next_attempt_at = UTC_TIMESTAMP(3), m.updated_at = UTC_TIMESTAMP(3)
        WHERE m.id = ? AND m.status = 'parked' AND r.wake_seq <> ?`,
      [id, wakeCount],
    );
    return result.affectedRows > 0;
  }

  private async unpark(ids: readonly string[]): Promise<number> {
    if (ids.length === 0) return 0;
    const result = await this.pool.withConnection((connection) =>
      connection.query(
        `UPDATE outbox_message FORCE INDEX (PRIMARY)
            SET status = 'pending', next_attempt_at = UTC_TIMESTAMP(3), updated_at = UTC_TIMESTAMP(3)
          WHERE id IN (${ids.map(() => '?').join(', ')}) AND status = 'parked' ORDER BY id`,
        ids,
      ),
    );
    return result.affectedRows;
  }
}

export interface ExpiredMessage extends Row, ToldMessage {
  readonly attempts: string;
  readonly open: string | null;
}
