import type { ControlPool, Row } from '../database/index.js';
import { InvalidMessageError } from '../errors/invalid-message.error.js';
import { keyBytes } from './message-row.js';
import type { OutboxKey } from './outgoing-message.js';

/** Which messages to look up; exactly one of them. */
export type OutboxQuery = { readonly id: string } | { readonly subject: OutboxKey } | { readonly receiver: OutboxKey };

/** failed: an attempt failed, the next one is due later. In the table that is pending with attempts. */
export type DeliveryStatus = 'pending' | 'sending' | 'sent' | 'failed' | 'parked' | 'held' | 'dead';

/** Where a message stands, without its payload. */
export interface DeliveryState {
  readonly id: string;
  readonly topic: string;
  readonly status: DeliveryStatus;
  readonly attempts: number;
  readonly receiver: string | null;
  readonly subject: string | null;
  /** 'YYYY-MM-DD hh:mm:ss.mmm', UTC. */
  readonly createdAt: string;
  /** When it was sent, or ended as dead. */
  readonly sentAt: string | null;
  /** Next time that it is tried; null when it has ended. */
  readonly nextAttemptAt: string | null;
  readonly errorKind: string | null;
  readonly errorMessage: string | null;
}

/** Counts of at most this many; beyond it `more` is true. */
const countTo = 10_000;
const mostFound = 100;

/**
 * Counts by status, each up to 10,000, and how long the oldest due message has been due. `failed` is counted among the
 * first 10,000 that are due and the first 10,000 that are not; with `more` there may be others behind them.
 */
export interface OutboxStats {
  readonly counts: Readonly<Record<DeliveryStatus, { readonly count: number; readonly more: boolean }>>;
  /** Null: none is due. */
  readonly oldestDueMs: number | null;
}

/** Looks into the outbox: by index, bounded, without locks. */
export class OutboxQueries {
  constructor(private readonly pool: ControlPool) {}

  /** At most 100, the newest first. */
  async find(query: OutboxQuery): Promise<DeliveryState[]> {
    const { index, column, value } = whereOf(query);
    const rows = await this.pool.rows<Row & Record<string, string | Buffer | null>>(
      `SELECT m.message_id AS id, m.topic, m.status, CAST(m.attempts AS CHAR) AS attempts, m.receiver, m.subject,
              CAST(m.created_at AS CHAR) AS created, CAST(m.sent_at AS CHAR) AS sent, CAST(m.next_attempt_at AS CHAR) AS next,
              m.error_kind AS kind, m.error_message AS message
         FROM outbox_message m FORCE INDEX (${index}) WHERE m.${column} = ? ORDER BY m.id DESC LIMIT ${mostFound}`,
      [value],
    );
    return rows.map((row) => {
      const attempts = Number(row.attempts);
      const stored = String(row.status);
      const status = stored === 'pending' && attempts > 0 ? 'failed' : (stored as DeliveryStatus);
      return {
        id: String(row.id),
        topic: String(row.topic),
        status,
        attempts,
        receiver: textOf(row.receiver),
        subject: textOf(row.subject),
        createdAt: String(row.created),
        sentAt: textOf(row.sent),
        nextAttemptAt: status === 'sent' || status === 'dead' ? null : String(row.next),
        errorKind: textOf(row.kind),
        errorMessage: textOf(row.message),
      };
    });
  }

  async stats(): Promise<OutboxStats> {
    const from = 'FROM outbox_message m FORCE INDEX (outbox_claim)';
    // Whether there are more is asked first: counting rows of a subquery with a LIMIT writes each into a temporary table.
    const one = (words: string) =>
      `(CASE WHEN (SELECT 1 ${from} WHERE ${words} LIMIT 1 OFFSET ${countTo}) IS NOT NULL
             THEN ${countTo + 1} ELSE (SELECT COUNT(*) ${from} WHERE ${words}) END)`;
    // Attempts are not in the index: of those that are due, and of those that are not yet, the first are looked at.
    const waiting = (words: string) =>
      `(SELECT COUNT(*) AS n, COALESCE(SUM(tried), 0) AS tried
          FROM (SELECT m.attempts > 0 AS tried ${from} WHERE m.status = 'pending' AND m.next_attempt_at ${words} UTC_TIMESTAMP(3)
                 LIMIT ${countTo + 1}) counted)`;
    const statuses = ['sending', 'sent', 'parked', 'held', 'dead'] as const;
    const [row] = await this.pool.rows<Row & Record<string, string | null>>(
      `SELECT ${statuses.map((status) => `${one(`m.status = '${status}'`)} AS ${status}`).join(', ')},
              CAST(due.n AS CHAR) AS due, CAST(later.n AS CHAR) AS later, CAST(due.tried + later.tried AS CHAR) AS failed,
              CAST((SELECT TIMESTAMPDIFF(MICROSECOND, m.next_attempt_at, UTC_TIMESTAMP(3)) FROM outbox_message m FORCE INDEX (outbox_claim)
                     WHERE m.status = 'pending' AND m.next_attempt_at <= UTC_TIMESTAMP(3)
                     ORDER BY m.next_attempt_at, m.id LIMIT 1) AS CHAR) AS oldest
         FROM ${waiting('<=')} due, ${waiting('>')} later`,
    );
    const capped = (value: unknown) => ({ count: Math.min(countTo, Number(value)), more: Number(value) > countTo });
    const [due, later] = [Number(row?.due), Number(row?.later)];
    const failed = capped(row?.failed);
    return {
      counts: {
        pending: { ...capped(due + later - Number(row?.failed)), more: due + later > countTo },
        // Where not all were looked at there may be more.
        failed: { ...failed, more: failed.more || due > countTo || later > countTo },
        sending: capped(row?.sending),
        sent: capped(row?.sent),
        parked: capped(row?.parked),
        held: capped(row?.held),
        dead: capped(row?.dead),
      },
      oldestDueMs: row?.oldest == null ? null : Number(row.oldest) / 1000,
    };
  }
}

function whereOf(query: OutboxQuery): { index: string; column: string; value: Buffer | string } {
  if ('id' in query && typeof query.id === 'string')
    return { index: 'outbox_message_id', column: 'message_id', value: query.id };
  const subject = 'subject' in query ? keyBytes(query.subject, 'subject', 64) : null;
  if (subject) return { index: 'outbox_subject', column: 'subject', value: subject };
  const receiver = 'receiver' in query ? keyBytes(query.receiver, 'receiver', 255) : null;
  if (receiver) return { index: 'outbox_receiver', column: 'receiver', value: receiver };
  throw new InvalidMessageError('query', 'write one of { id }, { subject } and { receiver }');
}

function textOf(value: string | Buffer | null | undefined): string | null {
  return value === null || value === undefined ? null : value.toString();
}
