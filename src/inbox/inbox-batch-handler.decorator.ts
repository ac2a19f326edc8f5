import 'reflect-metadata';
import type { BackoffOption, Duration } from '../config/index.js';
import type { InboxMessage } from './inbox-message.js';

// biome-ignore lint/suspicious/noExplicitAny: the body has whatever shape the sender gives it
type Item = any;

/** Options of one batch handler. What is left out comes from the module's options. */
export interface InboxBatchHandlerOptions {
  /** Whose messages it handles. Default: those of every source that has no handler of its own for the type. */
  readonly source?: string;
  /** Messages that one call gets at most, 1 to 500. Default 100. */
  readonly size?: number;
  /**
   * How long a batch that is not full waits for more messages, at most 10s. The lane waits with it, so messages of other
   * types come later by as much. Default 0: what is due now.
   */
  readonly maxWait?: Duration;
  /**
   * Splits a batch: each call gets the messages of one group, and no group is in work twice at the same time, in any lane
   * of any instance. A group that is in work elsewhere comes back after 1 s, no attempt counted. It must be quick and
   * must not throw; a throw puts the message into a group of its own. Default: one group.
   */
  readonly groupBy?: (message: InboxMessage<Item>) => string | number | bigint | null | undefined;
  /**
   * When a call throws: 'single' rolls it back and calls with one message after the other, so that only the guilty one
   * is retried or fails. 'dead' sends all of its messages to failed. Default 'single'.
   */
  readonly onFailure?: 'single' | 'dead';
  /** Of one call, whatever its size. Default `inbox.handlerTimeout`. */
  readonly timeout?: Duration;
  /** Default `inbox.maxRetry`. */
  readonly maxRetry?: number;
  /** Default `inbox.backoff`. */
  readonly backoff?: BackoffOption;
  /** How many calls run at the same time in this process, 1 to 1,000. N instances multiply it. Default: no limit. */
  readonly maxConcurrent?: number;
  /**
   * How many calls start in any one second in this process, whatever their size: a whole number up to 10,000, or less
   * than 1. N instances multiply it. Default: no limit.
   */
  readonly ratePerSecond?: number;
  /** Name of the limit. Handlers of one name share one limit and write the same numbers. Default: a limit of its own. */
  readonly limitBy?: string;
}

export interface InboxBatchHandlerMetadata extends InboxBatchHandlerOptions {
  readonly type: string;
}

const metadataKey = Symbol.for('mailroom:inbox-batch-handler');

/**
 * Marks a method as the handler of a type that gets many messages at once: consecutive due messages of its type in a
 * lane, in order. It is called with the messages and an `InboxBatchContext`. Returning means success of all but those
 * that `ctx.fail(message, error)` named; what was written through `ctx.manager` commits together with all marks.
 * Throwing rolls everything back; see `onFailure`. After a database error (deadlock, lost connection) the whole batch is
 * retried instead.
 *
 * @param type the message type, or '*' for all types of the source that have no handler of their own
 * @example
 * \@InboxBatchHandler('contract.signed', { source: 'contracts', size: 100, groupBy: (m) => m.json.contractId })
 * async signed(messages: readonly InboxMessage[], ctx: InboxBatchContext) { ... }
 */
export function InboxBatchHandler(type: string, options: InboxBatchHandlerOptions = {}): MethodDecorator {
  return (target, property) => {
    const method = (target as Record<PropertyKey, unknown>)[property];
    if (typeof method !== 'function') return;
    Reflect.defineMetadata(metadataKey, [...inboxBatchHandlersOf(method), { ...options, type }], method);
  };
}

/** What the decorators on a method say; empty without any. */
export function inboxBatchHandlersOf(method: object): readonly InboxBatchHandlerMetadata[] {
  return (Reflect.getMetadata(metadataKey, method) as InboxBatchHandlerMetadata[] | undefined) ?? [];
}
