import { Logger } from '@nestjs/common';
import type { ControlPool, Row } from '../database/index.js';
import {
  type AttemptTools,
  type BoxTable,
  type Candidate,
  type Kind,
  type LaneBox,
  type LaneHandler,
  PausedKinds,
  type Readiness,
  storedTrace,
} from '../delivery/index.js';
import type { Tracing } from '../observability/index.js';
import type { Pressure } from '../pressure/index.js';
import { during } from './ambient-message.js';
import { bindBatch } from './batch-dispatch.js';
import type { HandlerAdmission } from './handler-admission.js';
import type { HandlerRegistry, RegisteredHandler } from './handler-registry.js';
import type { InFlight } from './in-flight.js';
import type { InboxContext } from './inbox-context.js';
import { InboxMessage, type StoredMessage } from './inbox-message.js';
import type { ResolvedInboxOptions } from './inbox-options.js';
import { inboxBody } from './inbox-table.js';

/** From a message to its handler: finds it by source and type, decodes lazily, and gives it its context. */
export class InboxDispatcher implements LaneBox {
  readonly pausedKinds = new PausedKinds();
  private readonly bound = new Map<RegisteredHandler, LaneHandler>();

  constructor(
    private readonly registry: HandlerRegistry,
    private readonly options: ResolvedInboxOptions,
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
    private readonly admission: HandlerAdmission,
    private readonly inFlight: InFlight,
    private readonly pressure: Pick<Pressure, 'isLimited'>,
    private readonly tracing: Tracing,
  ) {}

  paused(): readonly Kind[] {
    return this.pausedKinds.list();
  }

  readiness(source: string, type: string): Readiness {
    if (this.pausedKinds.has(source, type)) return { kind: 'paused' };
    const handler = this.registry.find(source, type);
    if (!handler) return { kind: 'unknown' };
    return (
      this.admission.closedOff(source, type, handler) ?? {
        kind: 'ready',
        handler: this.boundOf(handler),
        permit: () => this.admission.permit(source, type, handler),
      }
    );
  }

  isLimited(source: string): boolean {
    return this.pressure.isLimited(source);
  }

  parksOn(source: string): boolean {
    return Object.hasOwn(this.options.sources, source) && this.options.sources[source]?.onFailure === 'park';
  }

  maxRetryOf(source: string, type: string): number {
    return this.registry.find(source, type)?.policy.maxRetry ?? this.options.maxRetry;
  }

  private boundOf(handler: RegisteredHandler): LaneHandler {
    const known = this.bound.get(handler);
    if (known) return known;
    const laneHandler = this.bind(handler);
    this.bound.set(handler, laneHandler);
    return laneHandler;
  }

  private bind(handler: RegisteredHandler): LaneHandler {
    const logger = new Logger(handler.name);
    const { timeoutMs, policy, transactional, batch } = handler;
    if (batch) {
      const load = (candidate: Candidate) => this.withBody(candidate);
      return { timeoutMs, policy, transactional, ...bindBatch(batch, logger, load, this.inFlight, this.tracing) };
    }
    return {
      timeoutMs,
      policy,
      transactional,
      batch: null,
      invoke: async (candidate, tools) => {
        const message = new InboxMessage(await this.withBody(candidate));
        const trace = storedTrace(candidate);
        const context = contextOf(message.id, trace.traceId, tools, logger);
        tools.started?.();
        const flight = { id: message.id, source: message.source, type: message.type, attempt: tools.attempt };
        await this.tracing.attempt(
          {
            box: 'inbox',
            operation: 'handle',
            destination: message.source,
            type: message.type,
            messages: [{ id: message.id, messageId: message.id, attempt: tools.attempt, trace }],
          },
          () => this.inFlight.during(flight, () => during(message, () => handler.call(message, context), trace)),
        );
      },
    };
  }

  /** Large bodies were left out when the message was read ahead. */
  private async withBody(candidate: Candidate): Promise<StoredMessage> {
    const message = candidate as Candidate & StoredMessage & { readonly body_bytes: number | null };
    if (message.body !== null || !message.body_bytes) return message;
    const [row] = await this.pool.rows<Row & { body: Buffer | null }>(
      `SELECT ${inboxBody(this.table)} AS body FROM ${this.table.name} m WHERE m.${this.table.id} = ?`,
      [candidate.id],
    );
    return { ...message, body: row?.body ?? null };
  }
}

function contextOf(messageId: string, traceId: string, tools: AttemptTools, logger: Logger): InboxContext {
  return {
    get manager() {
      return tools.manager();
    },
    get signal() {
      return tools.signal;
    },
    attempt: tools.attempt,
    messageId,
    traceId,
    logger,
  };
}
