import { z } from 'zod';
import { backoff, count, duration, flag, fn, parseOptions } from '../config/index.js';
import { HandlerRegistrationError } from '../errors/handler-registration.error.js';
import type { RetryPolicy } from '../message/retry-policy.js';
import type { Limiter } from '../pressure/index.js';
import { CallSize } from './batch-pace.js';
import type { InboxBatchContext } from './inbox-batch-context.js';
import type { InboxBatchHandlerMetadata } from './inbox-batch-handler.decorator.js';
import type { InboxContext } from './inbox-context.js';
import type { InboxHandlerMetadata } from './inbox-handler.decorator.js';
import type { InboxMessage } from './inbox-message.js';
import type { ResolvedInboxOptions } from './inbox-options.js';
import { SharedLimits } from './shared-limits.js';

export interface RegisteredHandler {
  /** `Class.method`, for errors and logs. */
  readonly name: string;
  readonly source: string | null;
  readonly type: string;
  readonly timeoutMs: number;
  readonly policy: RetryPolicy;
  readonly transactional: boolean;
  /** Null: no limit. Shared by the handlers of one `limitBy`. */
  readonly limiter: Limiter | null;
  /** Null: it gets one message at a time. */
  readonly batch: RegisteredBatch | null;
  call(message: InboxMessage, context: InboxContext): unknown;
}

/** What `@InboxBatchHandler` says beside what all handlers have. */
export interface RegisteredBatch {
  readonly size: number;
  readonly maxWaitMs: number;
  readonly onFailure: 'single' | 'dead';
  readonly groupBy: InboxBatchHandlerMetadata['groupBy'] | undefined;
  readonly callSize: CallSize;
  call(messages: readonly InboxMessage[], context: InboxBatchContext): unknown;
}

const rateWords = 'write a whole number from 1 to 10,000, or less than 1, at least 0.01, for one in several seconds';

const ratePerSecond = z
  .number({ error: rateWords })
  .min(0.01, rateWords)
  .max(10_000, rateWords)
  .refine((rate) => rate < 1 || Number.isInteger(rate), rateWords);

const schema = z.strictObject({
  type: z.string().regex(/^[\x21-\x7e]{1,128}$/, "write a type of 1 to 128 printable ASCII characters, or '*'"),
  source: z.string().optional(),
  timeout: duration({ min: 1, max: 3_600_000 }).optional(),
  maxRetry: count(0, 1_000).optional(),
  backoff: backoff.optional(),
  transactional: flag.default(true),
  maxConcurrent: count(1, 1_000).optional(),
  ratePerSecond: ratePerSecond.optional(),
  limitBy: z.string().min(1).max(64).optional(),
});

const batchSchema = z.strictObject({
  type: schema.shape.type,
  source: schema.shape.source,
  timeout: schema.shape.timeout,
  maxRetry: schema.shape.maxRetry,
  backoff: schema.shape.backoff,
  maxConcurrent: schema.shape.maxConcurrent,
  ratePerSecond: schema.shape.ratePerSecond,
  limitBy: schema.shape.limitBy,
  size: count(1, 500).default(100),
  maxWait: duration({ max: 10_000 }).default(0),
  groupBy: fn<NonNullable<InboxBatchHandlerMetadata['groupBy']>>('the group of a message').optional(),
  onFailure: z.enum(['single', 'dead'], { error: "write 'single' or 'dead'" }).default('single'),
});

/** Every type that no handler names. */
const anyType = '*';

/** Which handler gets a message: source and type before type alone, a named type before '*'. */
export class HandlerRegistry {
  private readonly handlers = new Map<string, RegisteredHandler>();
  private readonly limits = new SharedLimits();

  constructor(private readonly options: ResolvedInboxOptions) {}

  /**
   * @param name `Class.method`
   * @throws HandlerRegistrationError for a second handler of the same kind or an unknown source
   * @throws InvalidOptionsError for a wrong option
   */
  add(name: string, metadata: InboxHandlerMetadata, call: RegisteredHandler['call']): void {
    this.register(name, parseOptions(schema, metadata, `@InboxHandler of ${name}`), null, call);
  }

  /** As `add`, for a method that gets many messages at once. */
  addBatch(name: string, metadata: InboxBatchHandlerMetadata, call: RegisteredBatch['call']): void {
    const options = parseOptions(batchSchema, metadata, `@InboxBatchHandler of ${name}`);
    const { size, maxWait, onFailure, groupBy, ...rest } = options;
    const batch = { size, maxWaitMs: maxWait, onFailure, groupBy, callSize: new CallSize(size), call };
    this.register(name, { ...rest, transactional: true }, batch, () => undefined);
  }

  private register(
    name: string,
    options: z.output<typeof schema>,
    batch: RegisteredBatch | null,
    call: RegisteredHandler['call'],
  ): void {
    const { sources, handlerTimeout, maxRetry, backoff: moduleBackoff, orphanAfter, mode } = this.options;
    if (options.source !== undefined && !Object.hasOwn(sources, options.source)) {
      const known = Object.keys(sources).join(', ') || 'none';
      throw new HandlerRegistrationError(name, `there is no source '${options.source}'; inbox.sources has: ${known}`);
    }
    const timeoutMs = options.timeout ?? handlerTimeout;
    if ((!options.transactional || mode === 'competing') && timeoutMs >= orphanAfter) {
      throw new HandlerRegistrationError(
        name,
        `its timeout of ${timeoutMs} ms must be less than inbox.orphanAfter (${orphanAfter} ms)`,
      );
    }
    const key = keyOf(options.source ?? null, options.type);
    const other = this.handlers.get(key);
    if (other) {
      const kind = `type '${options.type}' of ${options.source ? `source '${options.source}'` : 'every source'}`;
      throw new HandlerRegistrationError(name, `${other.name} already handles ${kind}; one message has one handler`);
    }
    const { maxConcurrent = null, ratePerSecond = null, limitBy } = options;
    this.handlers.set(key, {
      name,
      source: options.source ?? null,
      type: options.type,
      timeoutMs,
      policy: { maxRetry: options.maxRetry ?? maxRetry, backoff: options.backoff ?? moduleBackoff },
      transactional: options.transactional,
      limiter: this.limits.limiterOf(name, { maxConcurrent, ratePerSecond }, limitBy),
      batch,
      call,
    });
  }

  find(source: string, type: string): RegisteredHandler | null {
    const { handlers } = this;
    return (
      handlers.get(keyOf(source, type)) ??
      handlers.get(keyOf(null, type)) ??
      handlers.get(keyOf(source, anyType)) ??
      handlers.get(keyOf(null, anyType)) ??
      null
    );
  }

  get size(): number {
    return this.handlers.size;
  }

  /** The longest time that any handler may take, for limits that must lie above it. */
  longestTimeoutMs(): number {
    return Math.max(this.options.handlerTimeout, ...[...this.handlers.values()].map((handler) => handler.timeoutMs));
  }
}

function keyOf(source: string | null, type: string): string {
  return `${source ?? ''}\0${type}`;
}
