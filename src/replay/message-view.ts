import type { ControlPool, Row } from '../database/index.js';
import { conditionOf, outboxRunBox, type RunBox, type Selection } from '../delivery/runs/index.js';

/** A message in a list: no body. */
export interface MessageLine {
  readonly id: string;
  /** Outbox: 'outbox'. */
  readonly source: string;
  /** Outbox: the topic. */
  readonly type: string;
  readonly status: string;
  readonly attempts: number;
  readonly replays: number;
  readonly errorKind: string | null;
  readonly errorMessage: string | null;
  /** 'YYYY-MM-DD hh:mm:ss.mmm', UTC. */
  readonly receivedAt: string | null;
  readonly finishedAt: string | null;
}

/** One message with all that is known of it. */
export interface MessageView extends MessageLine {
  readonly key: string | null;
  /** The message in whose place it was put by an edit. */
  readonly replayOf: string | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly contentType: string | null;
  readonly bodyBytes: number;
  /** Decoded as UTF-8 and redacted, at most 64 KiB of it. */
  readonly body: string;
  readonly nextAttemptAt: string;
  /** Its earlier lives, and those of the message that it replaced, the newest first. At most 50. */
  readonly history: readonly {
    readonly messageId: string;
    readonly at: string;
    readonly reason: string | null;
    readonly runId: string | null;
    readonly attempts: number;
    readonly errorKind: string | null;
    readonly errorMessage: string | null;
  }[];
}

const mostBodyBytes = 65_536;
const mostHistory = 50;

/** Looks at messages of a box, without locks. */
export class MessageLooks {
  constructor(private readonly pool: ControlPool) {}

  /** A page in order of ids after `after`; stable while rows change. */
  async page(selection: Selection, box: RunBox, after: string, limit: number): Promise<MessageLine[]> {
    const { sql, values, index } = conditionOf(selection, box);
    const rows = await this.pool.withConnection((connection) =>
      connection.queryRows<Row & LineRow>(
        box.mapped`SELECT ${lineColumns(box)} FROM ${box.table} m FORCE INDEX (${index}) WHERE ${sql} AND m.id > ?
          ORDER BY m.id LIMIT ${Math.trunc(limit)}`,
        [...values, after],
      ),
    );
    return rows.map(lineOf);
  }

  async one(
    id: string,
    box: RunBox,
    redact: (body: string, message: { readonly source: string; readonly type: string }) => string,
  ): Promise<MessageView | null> {
    const body = box.column(box.name === 'inbox' ? 'body' : 'payload');
    const key = box.name === 'inbox' ? 'entity_key' : 'message_key';
    const rows = await this.pool.rows<
      Row &
        LineRow & {
          key: Buffer | null;
          original: string | null;
          headers: string | null;
          content_type: string | null;
          bytes: number;
          body: Buffer;
          next: string;
        }
    >(
      box.mapped`SELECT ${lineColumns(box)}, m.${box.column(key)} AS \`key\`, CAST(m.replay_of AS CHAR) AS original, CAST(m.headers AS CHAR) AS headers, m.content_type AS content_type,
              OCTET_LENGTH(m.${body}) AS bytes, LEFT(CAST(m.${body} AS BINARY), ${mostBodyBytes}) AS body,
              CAST(m.next_attempt_at AS CHAR) AS next
         FROM ${box.table} m WHERE m.id = ?`,
      [id],
    );
    const [row] = rows;
    if (!row) return null;
    const line = lineOf(row);
    return {
      ...line,
      key: row.key?.toString('utf8') ?? null,
      replayOf: row.original,
      headers: row.headers === null ? {} : (JSON.parse(row.headers) as Record<string, string>),
      contentType: row.content_type,
      bodyBytes: Number(row.bytes),
      body: redact(row.body.toString('utf8'), line),
      nextAttemptAt: row.next,
      history: await this.history(row.original === null ? [id] : [id, row.original], box),
    };
  }

  private async history(ids: readonly string[], box: RunBox): Promise<MessageView['history']> {
    const rows = await this.pool.rows<Row & Record<string, string | null>>(
      `SELECT CAST(a.id AS CHAR) AS id, CAST(a.archived_at AS CHAR) AS at, a.reason, CAST(a.run_id AS CHAR) AS run, CAST(a.attempts AS CHAR) AS attempts,
              a.error_kind AS kind, a.error_message AS message
         FROM ${box.archive} a WHERE a.id IN (${ids.map(() => '?').join(', ')}) ORDER BY a.archive_id DESC LIMIT ${mostHistory}`,
      ids,
    );
    return rows.map((row) => ({
      messageId: String(row.id),
      at: String(row.at),
      reason: row.reason ?? null,
      runId: row.run ?? null,
      attempts: Number(row.attempts),
      errorKind: row.kind ?? null,
      errorMessage: row.message ?? null,
    }));
  }
}

/** The box of a selection. */
export function runBoxOf(name: unknown, inbox: RunBox): RunBox | null {
  if (name === undefined || name === 'inbox') return inbox;
  return name === 'outbox' ? outboxRunBox : null;
}

interface LineRow {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly status: string;
  readonly attempts: string;
  readonly replays: string;
  readonly kind: string | null;
  readonly message: string | null;
  readonly received: string | null;
  readonly finished: string | null;
}

function lineColumns({ name, receivedAt, finishedAt, column, mapped }: RunBox): string {
  const what = name === 'inbox' ? mapped`m.source AS source, m.type AS type` : "'outbox' AS source, m.topic AS type";
  return mapped`CAST(m.id AS CHAR) AS id, ${what}, m.status AS status, CAST(m.attempts AS CHAR) AS attempts,
    CAST(m.replay_count AS CHAR) AS replays, m.error_kind AS kind, m.error_message AS message,
    CAST(m.${column(receivedAt)} AS CHAR) AS received, CAST(m.${column(finishedAt)} AS CHAR) AS finished`;
}

function lineOf(row: LineRow): MessageLine {
  return {
    id: row.id,
    source: row.source,
    type: row.type,
    status: row.status,
    attempts: Number(row.attempts),
    replays: Number(row.replays),
    errorKind: row.kind,
    errorMessage: row.message,
    receivedAt: row.received,
    finishedAt: row.finished,
  };
}
