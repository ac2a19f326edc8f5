import type { OutboxMessage } from '../outbox-message.js';

/** What became of one message that was handed to a transport. */
export type SendResult =
  /** It arrived: confirmed by the other side as far as the transport can know. */
  | { readonly status: 'sent' }
  /**
   * Try again after the backoff; the attempt counts. `delayMs` instead of the backoff. `fault: 'receiver'`: this one
   * receiver is the cause, so the breaker of the transport does not count it.
   */
  | { readonly status: 'retry'; readonly error: unknown; readonly delayMs?: number; readonly fault?: 'receiver' }
  /**
   * Its receiver is not reachable now: parked, no attempt counted, until the receiver is woken, or for `recheckMs`
   * instead of `parkRecheck`.
   */
  | { readonly status: 'offline'; readonly recheckMs?: number }
  /** It can never be sent: it ends as dead. */
  | { readonly status: 'dead'; readonly error: unknown };

export interface SendContext {
  /** Aborted after sendTimeout, when the claim is lost, and at the shutdown deadline. */
  readonly signal: AbortSignal;
}

/** The outbox that sends through a transport, as the transport sees it. */
export interface TransportOutbox {
  /** `outbox.sendTimeout`. */
  readonly sendTimeoutMs: number;
  /** Name of the database: two applications that share a broker or Redis are told apart by it. */
  readonly database: string;
  /** As `OutboxService.wakeReceiver`. */
  wakeReceiver(receiver: string): Promise<unknown>;
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
  /** When the application starts, before anything is sent; on instances that do not send too. A throw stops the start. */
  open?(outbox: TransportOutbox): void | Promise<void>;
  send(messages: readonly OutboxMessage[], context: SendContext): Promise<readonly SendResult[]>;
  /** Before the application's other parts close. */
  close?(): void | Promise<void>;
}
