/** A key or name of the application's own: text, or bytes. At most 255 bytes; longer keys are hashed. */
export type OutboxKey = string | number | bigint | Buffer;

/** What to send. */
export interface OutgoingMessage {
  /** What it is: picks the handler or the address at the other side. 1 to 128 printable ASCII characters. */
  readonly topic: string;
  /** Any JSON value, or bytes, which are sent as they are. */
  readonly payload: unknown;
  /** Messages of the same key, and of the same receiver if there is one, leave in order. Default: no order to keep. */
  readonly key?: OutboxKey;
  /** Whom it is for. While a receiver is offline, only its own messages wait. */
  readonly receiver?: OutboxKey;
  /**
   * Identity of the message for the receiving side, which drops what it has seen: 1 to 64 printable ASCII characters,
   * unique for ever. Default: a UUIDv7. The same id twice is a duplicate key error in the caller's transaction.
   */
  readonly id?: string;
  /** The business message that it is about, for `find({ subject })`. At most 64 bytes. */
  readonly subject?: OutboxKey;
  /** Not sent before this time has passed: milliseconds or '30s', at most 30 days. Default: at once. */
  readonly delay?: number | string;
  /** Text by name, sent along. The trace of the message in work (traceparent, tracestate, x-request-id) is carried over unless it is given. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default 'application/json', for bytes 'application/octet-stream'. */
  readonly contentType?: string;
  /**
   * True: transactions that enqueue for the same key wait for each other, so that commit order is id order. Needs key or
   * receiver, and one more statement. Default false.
   */
  readonly strictOrder?: boolean;
  /** Position within the key: waiting messages leave in this order. A whole number. Default: the order of enqueueing. */
  readonly sequence?: number | bigint;
}
