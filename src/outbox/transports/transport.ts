import type { OutboxMessage } from '../outbox-message.js';

/** What became of one message that was handed to a transport. */
export type SendResult =
  /** It arrived: confirmed by the other side as far as the transport can know. */
  | { readonly status: 'sent' }
  /** Try again after the backoff; the attempt counts. `delayMs` instead of the backoff. */
  | { readonly status: 'retry'; readonly error: unknown; readonly delayMs?: number }
  /** Its receiver is not reachable now: parked, no attempt counted, until the receiver is woken. */
  | { readonly status: 'offline' }
  /** It can never be sent: it ends as dead. */
  | { readonly status: 'dead'; readonly error: unknown };

export interface SendContext {
  /** Aborted after sendTimeout, when the claim is lost, and at the shutdown deadline. */
  readonly signal: AbortSignal;
}

/**
 * Takes messages out of the process. Batch first: `send` gets at most `batchSize` messages, no two of one order unit, and
 * returns a result for each, in order. A throw, or no answer within sendTimeout, is a retry for all of them, so a
 * message may be sent again that had arrived: the other side drops what it has seen by the message's id.
 */
export interface Transport {
  /** For logs and errors. */
  readonly name: string;
  /** Messages that it takes at once. Default 1. */
  readonly batchSize?: number;
  send(messages: readonly OutboxMessage[], context: SendContext): Promise<readonly SendResult[]>;
  /** Before the application's other parts close. */
  close?(): void | Promise<void>;
}
