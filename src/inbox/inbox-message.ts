import { PermanentFailureError } from '../errors/permanent-failure.error.js';
import { decodeUtf8 } from './push.js';

/** The columns of a message as the engine reads them. */
export interface StoredMessage {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly attempts: string;
  readonly dedup_key: Buffer | null;
  readonly entity_key: Buffer | null;
  readonly sequence: string | null;
  readonly headers: string | null;
  readonly content_type: string | null;
  readonly body: Buffer | null;
  readonly received_at: string | null;
  readonly replay_count: string;
}

/**
 * A message as its handler sees it. Bodies are decoded at first use; one that cannot be decoded is a permanent failure,
 * since a retry would read the same bytes.
 */
export class InboxMessage<T = unknown> {
  /** Decimal text: ids are 64 bits wide. */
  readonly id: string;
  readonly source: string;
  readonly type: string;
  /** The key as it is stored; the SHA-256 of a key over 255 bytes. */
  readonly dedupKey: Buffer | null;
  readonly entityKey: string | null;
  readonly sequence: bigint | null;
  readonly contentType: string | null;
  /** The bytes as they were pushed. */
  readonly body: Buffer;
  /** UTC, '2026-01-31 12:00:00.000'. */
  readonly receivedAt: string | null;
  readonly replayCount: number;
  private readonly rawHeaders: string | null;
  private readonly decoded = new Map<'text' | 'json' | 'headers', unknown>();

  constructor(row: StoredMessage) {
    this.id = row.id;
    this.source = row.source;
    this.type = row.type;
    this.dedupKey = row.dedup_key;
    this.entityKey = row.entity_key?.toString('utf8') ?? null;
    this.sequence = row.sequence === null ? null : BigInt(row.sequence);
    this.contentType = row.content_type;
    this.body = row.body ?? Buffer.alloc(0);
    this.receivedAt = row.received_at;
    this.replayCount = Number(row.replay_count);
    this.rawHeaders = row.headers;
  }

  /** The body as UTF-8 text. @throws PermanentFailureError kind `undecodable` */
  get text(): string {
    return this.once('text', () => decodeUtf8(this.body)) as string;
  }

  /** The body as JSON. Numbers beyond 2^53 lose digits; `body` has them. @throws PermanentFailureError kind `undecodable` */
  get json(): T {
    return this.once('json', () => JSON.parse(this.text)) as T;
  }

  /** The stored request headers, lower-case names. @throws PermanentFailureError kind `undecodable` */
  get headers(): Readonly<Record<string, string>> {
    return this.once('headers', () => (this.rawHeaders === null ? {} : JSON.parse(this.rawHeaders))) as Record<
      string,
      string
    >;
  }

  private once(what: 'text' | 'json' | 'headers', decode: () => unknown): unknown {
    if (!this.decoded.has(what)) this.decoded.set(what, this.decode(what, decode));
    return this.decoded.get(what);
  }

  private decode(what: string, decode: () => unknown): unknown {
    try {
      return decode();
    } catch (error) {
      if (error instanceof PermanentFailureError) throw error;
      // The parser's own message quotes the body, which must not reach logs and tables.
      throw new PermanentFailureError(`message ${this.id}: its ${what} cannot be decoded`, { kind: 'undecodable' });
    }
  }
}
