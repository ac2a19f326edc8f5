import 'reflect-metadata';
import type { Duration } from '../../config/index.js';

/**
 * Messages go to the method of this application that is marked with `@OutboxHandler(topic)`. What it writes through
 * `ctx.manager` commits together with the sent mark: exactly once, also over crashes.
 */
export interface LocalTransport {
  readonly name: 'local';
  readonly local: true;
}

export function localTransport(): LocalTransport {
  return { name: 'local', local: true };
}

export interface OutboxHandlerOptions {
  /** Time that it has. Default `outbox.sendTimeout`. */
  readonly timeout?: Duration;
}

export interface OutboxHandlerMetadata extends OutboxHandlerOptions {
  readonly topic: string;
}

const metadataKey = Symbol.for('mailroom:outbox-handler');

/**
 * Marks a method of a provider or controller as the handler of a topic for `localTransport()`. It is called with the
 * message and its context; returning means sent, throwing means retry, `PermanentFailureError` means dead at once.
 *
 * @example
 * \@OutboxHandler('warehouse.reserve')
 * async reserve(message: OutboxMessage<Reserve>, ctx: OutboxContext) {
 *   await ctx.manager.insert(Reservation, message.payload);
 * }
 */
export function OutboxHandler(topic: string, options: OutboxHandlerOptions = {}): MethodDecorator {
  return (target, property) => {
    const method = (target as Record<PropertyKey, unknown>)[property];
    if (typeof method !== 'function') return;
    Reflect.defineMetadata(metadataKey, [...outboxHandlersOf(method), { ...options, topic }], method);
  };
}

/** What the decorators on a method say; empty without any. */
export function outboxHandlersOf(method: object): readonly OutboxHandlerMetadata[] {
  return (Reflect.getMetadata(metadataKey, method) as OutboxHandlerMetadata[] | undefined) ?? [];
}
