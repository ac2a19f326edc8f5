import 'reflect-metadata';
import type { BackoffOption, Duration } from '../config/index.js';

/** Options of one handler. What is left out comes from the module's options. */
export interface InboxHandlerOptions {
  /** Whose messages it handles. Default: those of every source that has no handler of its own for the type. */
  readonly source?: string;
  /** Default `inbox.handlerTimeout`. */
  readonly timeout?: Duration;
  /** Default `inbox.maxRetry`. */
  readonly maxRetry?: number;
  /** Default `inbox.backoff`. */
  readonly backoff?: BackoffOption;
  /**
   * False for a handler whose effects are elsewhere and take long: its claim then lives `inbox.orphanAfter`, and a
   * change of the lane's holder leaves it alone. Default true.
   */
  readonly transactional?: boolean;
  /** How many of them run at the same time in this process, 1 to 1,000. N instances multiply it. Default: no limit. */
  readonly maxConcurrent?: number;
  /**
   * How many attempts start in any one second in this process: a whole number up to 10,000, or less than 1. N instances
   * multiply it. Default: no limit.
   */
  readonly ratePerSecond?: number;
  /** Name of the limit. Handlers of one name share one limit and write the same numbers. Default: a limit of its own. */
  readonly limitBy?: string;
}

export interface InboxHandlerMetadata extends InboxHandlerOptions {
  readonly type: string;
}

const metadataKey = Symbol.for('mailroom:inbox-handler');

/**
 * Marks a method of a provider or controller as the handler of a type. It is called with the message and its context;
 * returning means success, throwing means retry, `PermanentFailureError` means failed at once.
 *
 * @param type the message type, or '*' for all types of the source that have no handler of their own
 * @example
 * \@InboxHandler('order.paid', { source: 'order-center', timeout: '60s' })
 * async paid(message: InboxMessage<OrderPaid>, ctx: InboxContext) {
 *   await ctx.manager.update(Order, message.json.orderId, { status: 'paid' });
 * }
 */
export function InboxHandler(type: string, options: InboxHandlerOptions = {}): MethodDecorator {
  return (target, property) => {
    const method = (target as Record<PropertyKey, unknown>)[property];
    if (typeof method !== 'function') return;
    const handlers = [...inboxHandlersOf(method), { ...options, type }];
    Reflect.defineMetadata(metadataKey, handlers, method);
  };
}

/** What the decorators on a method say; empty without any. */
export function inboxHandlersOf(method: object): readonly InboxHandlerMetadata[] {
  return (Reflect.getMetadata(metadataKey, method) as InboxHandlerMetadata[] | undefined) ?? [];
}
