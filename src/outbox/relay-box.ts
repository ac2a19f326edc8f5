import { Logger } from '@nestjs/common';
import type { ControlPool, Row } from '../database/index.js';
import {
  type AttemptEnd,
  type ClosedOff,
  type CompetingBox,
  type DueMessage,
  type LaneHandler,
  type Permit,
  type PutOffStore,
  type Readiness,
  storedTrace,
  type UnknownTypes,
} from '../delivery/index.js';
import { PermanentFailureError } from '../errors/permanent-failure.error.js';
import { type Tracing, withCurrentMessage } from '../observability/index.js';
import type { CallResult } from '../pressure/index.js';
import type { OutboxHandlerRegistry, RegisteredOutboxHandler } from './handler-registry.js';
import type { OutboxContext } from './outbox-context.js';
import { type OutboxCandidate, OutboxMessage } from './outbox-message.js';
import type { ResolvedOutboxOptions } from './outbox-options.js';
import { outboxSource } from './outbox-table.js';
import type { TransportBreakers } from './transport-breakers.js';
import type { Transport } from './transports/transport.js';

/** How a message leaves: the engine's handler, and for what is not local the transport. */
export interface Way extends LaneHandler {
  /** Name under which the transport was given. */
  readonly name: string;
  /** Name of its breaker. */
  readonly breaker: string;
  /** Null: a method of this application. */
  readonly transport: Transport | null;
}

/** From a message to its way out: asks the route, then for a local message its handler. */
export class RelayBox implements CompetingBox {
  private readonly ways = new Map<string, Way>();
  /** The route is asked once for each message that is read, not for each question. */
  private readonly routed = new WeakMap<DueMessage, string | null>();

  constructor(
    private readonly options: ResolvedOutboxOptions,
    private readonly registry: OutboxHandlerRegistry,
    private readonly breakers: TransportBreakers,
    private readonly pool: ControlPool,
    private readonly putOffs: PutOffStore,
    private readonly unknown: UnknownTypes,
    private readonly tracing: Tracing,
  ) {}

  kindOf(message: DueMessage): string {
    return `${this.routeOf(message) ?? ''}\0${message.type}`;
  }

  readiness(message: DueMessage): Readiness {
    const name = this.routeOf(message);
    if (name === null) return { kind: 'unknown' };
    const way = this.wayOf(name, message.type);
    if (!way) return { kind: 'unknown' };
    const waitMs = this.breakers.waitMs(way.breaker);
    if (waitMs > 0)
      return {
        kind: 'closed-off',
        retryInMs: Math.ceil(waitMs),
        reason: `the breaker of ${way.breaker} is open`,
        pace: null,
      };
    return { kind: 'ready', handler: way, permit: () => this.permitOf(way) };
  }

  parksOn(): boolean {
    return false;
  }

  paused(): readonly [] {
    return [];
  }

  putOff(lane: number, messages: readonly DueMessage[], why: ClosedOff | 'unknown'): Promise<number> {
    const [first] = messages;
    if (!first) return Promise.resolve(0);
    return why === 'unknown'
      ? this.unknown.meet(lane, outboxSource, first.type)
      : this.putOffs.putOffThese(
          messages.map(({ id }) => id),
          why.retryInMs,
        );
  }

  resumeInMs(): null {
    return null;
  }

  maxRetryOf(): number {
    return this.options.maxRetry;
  }

  /** The message with its payload; a large one is fetched now. */
  async load(candidate: DueMessage): Promise<OutboxMessage> {
    const row = candidate as OutboxCandidate;
    if (row.payload !== null) return new OutboxMessage(row, row.payload);
    const [found] = await this.pool.rows<Row & { payload: Buffer }>('SELECT payload FROM outbox_message WHERE id = ?', [
      row.id,
    ]);
    return new OutboxMessage(row, found?.payload ?? Buffer.alloc(0));
  }

  private routeOf(message: DueMessage): string | null {
    const known = this.routed.get(message);
    if (known !== undefined) return known;
    let name: string | null;
    try {
      const row = message as OutboxCandidate;
      name = this.options.route(new OutboxMessage(row, row.payload ?? Buffer.alloc(0)));
      if (!Object.hasOwn(this.options.transports, name)) name = null;
    } catch {
      // Another instance may know better; until then it is put off like an unknown topic.
      name = null;
    }
    this.routed.set(message, name);
    return name;
  }

  private wayOf(name: string, topic: string): Way | null {
    const transport = this.options.transports[name];
    if (!transport) return null;
    const handler = 'local' in transport ? this.registry.find(topic) : null;
    if ('local' in transport && !handler) return null;
    const key = handler ? `${name}\0${topic}` : name;
    const known = this.ways.get(key);
    if (known) return known;
    const { maxRetry, backoff, sendTimeout } = this.options;
    const way: Way = {
      name,
      breaker: handler ? `${name}:${topic}` : name,
      transport: 'local' in transport ? null : transport,
      policy: { maxRetry, backoff },
      timeoutMs: handler?.timeoutMs ?? sendTimeout,
      transactional: true,
      batch: null,
      invoke: handler ? this.localCall(handler) : () => undefined,
    };
    this.ways.set(key, way);
    return way;
  }

  private localCall(handler: RegisteredOutboxHandler): Way['invoke'] {
    const logger = new Logger(handler.name);
    return async (candidate, tools) => {
      const message = await this.load(candidate);
      const trace = storedTrace(candidate);
      const context: OutboxContext = {
        get manager() {
          return tools.manager();
        },
        get signal() {
          return tools.signal;
        },
        attempt: tools.attempt,
        messageId: message.id,
        traceId: trace.traceId,
        logger,
      };
      tools.started?.();
      const { id: messageId, topic: type, attempt } = message;
      await this.tracing.attempt(
        {
          box: 'outbox',
          operation: 'handle',
          destination: 'local',
          type,
          messages: [{ id: candidate.id, messageId, attempt, trace }],
        },
        async () => withCurrentMessage({ messageId, ...trace }, () => handler.call(message, context)),
      );
    };
  }

  /** For a local handler; a send tells the breaker by itself. */
  private permitOf({ transport, breaker }: Way): Permit {
    const call = transport === null ? this.breakers.begin(breaker) : undefined;
    let startedAt = performance.now();
    return {
      started: () => {
        startedAt = performance.now();
      },
      ended: (end) => call?.end(resultOf(end), performance.now() - startedAt),
      giveBack: () => call?.end('neutral', 0),
    };
  }
}

function resultOf(end: AttemptEnd): CallResult {
  if (end.kind === 'returned') return 'success';
  if (end.kind === 'interrupted') return 'neutral';
  return end.kind === 'threw' && end.error instanceof PermanentFailureError ? 'neutral' : 'failure';
}
