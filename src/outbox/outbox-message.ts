import type { Candidate } from '../delivery/index.js';

/** Columns of a message as the relay reads it, see `outboxTable`. */
export interface OutboxCandidate extends Candidate {
  readonly message_id: string;
  readonly message_key: Buffer | null;
  readonly receiver: Buffer | null;
  readonly sequence: string | null;
  readonly subject: Buffer | null;
  readonly headers: string | null;
  readonly content_type: string | null;
  readonly payload_bytes: number | null;
  /** Null: too large to come along; it is fetched when it is sent. */
  readonly payload: Buffer | null;
  readonly created_at: string;
  readonly replay_count: string;
}

/** A message on its way out, as transports and `@OutboxHandler` methods get it. */
export class OutboxMessage<T = unknown> {
  /** Identity for the receiving side: the same on every attempt, so that it can drop what it has seen. */
  readonly id: string;
  readonly topic: string;
  readonly contentType: string;
  /** The bytes as they were enqueued. */
  readonly body: Buffer;
  /** Attempts started, this one included. */
  readonly attempt: number;
  /** When it was enqueued: 'YYYY-MM-DD hh:mm:ss.mmm', UTC. */
  readonly createdAt: string;

  constructor(
    private readonly row: OutboxCandidate,
    body: Buffer,
  ) {
    this.id = row.message_id;
    this.topic = row.type;
    this.contentType = row.content_type ?? 'application/octet-stream';
    this.body = body;
    this.attempt = Number(row.attempts) + 1;
    this.createdAt = row.created_at;
  }

  /** What was enqueued as `payload`; decoded anew with each call. @throws SyntaxError when it is not JSON */
  get payload(): T {
    return JSON.parse(this.body.toString('utf8')) as T;
  }

  /** As it was enqueued, or its SHA-256 if that was longer than 255 bytes; null without a key. */
  get key(): string | null {
    return this.row.message_key?.toString('utf8') ?? null;
  }

  get receiver(): string | null {
    return this.row.receiver?.toString('utf8') ?? null;
  }

  get subject(): string | null {
    return this.row.subject?.toString('utf8') ?? null;
  }

  get sequence(): bigint | null {
    return this.row.sequence === null ? null : BigInt(this.row.sequence);
  }

  get headers(): Readonly<Record<string, string>> {
    return this.row.headers === null ? {} : (JSON.parse(this.row.headers) as Record<string, string>);
  }
}
