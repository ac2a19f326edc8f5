import { parseDuration } from '../config/index.js';
import { HandlerRegistrationError } from '../errors/handler-registration.error.js';
import type { OutboxContext } from './outbox-context.js';
import type { OutboxMessage } from './outbox-message.js';
import type { OutboxHandlerMetadata } from './transports/local-transport.js';

export interface RegisteredOutboxHandler {
  /** `Class.method`, for errors and logs. */
  readonly name: string;
  readonly topic: string;
  readonly timeoutMs: number;
  call(message: OutboxMessage, context: OutboxContext): unknown;
}

/** Which method gets a topic of the local transport. */
export class OutboxHandlerRegistry {
  private readonly handlers = new Map<string, RegisteredOutboxHandler>();

  constructor(private readonly limits: { readonly sendTimeout: number; readonly claimTtl: number }) {}

  /** @throws HandlerRegistrationError for a second handler of the topic or a wrong timeout */
  add(name: string, { topic, timeout }: OutboxHandlerMetadata, call: RegisteredOutboxHandler['call']): void {
    if (typeof topic !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(topic))
      throw new HandlerRegistrationError(name, 'write a topic of 1 to 128 printable ASCII characters');
    const timeoutMs =
      timeout === undefined ? this.limits.sendTimeout : parseDuration(timeout, `@OutboxHandler of ${name}: timeout`);
    if (timeoutMs < 1 || timeoutMs >= this.limits.claimTtl)
      throw new HandlerRegistrationError(
        name,
        `its timeout of ${timeoutMs} ms must be at least 1 ms and less than outbox.claimTtl (${this.limits.claimTtl} ms)`,
      );
    const other = this.handlers.get(topic);
    if (other)
      throw new HandlerRegistrationError(
        name,
        `${other.name} already handles topic '${topic}'; one topic has one handler`,
      );
    this.handlers.set(topic, { name, topic, timeoutMs, call });
  }

  find(topic: string): RegisteredOutboxHandler | null {
    return this.handlers.get(topic) ?? null;
  }

  get size(): number {
    return this.handlers.size;
  }

  longestTimeoutMs(): number {
    return Math.max(this.limits.sendTimeout, ...[...this.handlers.values()].map(({ timeoutMs }) => timeoutMs));
  }
}
