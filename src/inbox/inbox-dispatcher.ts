import { AsyncLocalStorage } from 'node:async_hooks';
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
} from '../delivery/index.js';
import { bindBatch } from './batch-dispatch.js';
import type { HandlerAdmission } from './handler-admission.js';
import type { HandlerRegistry, RegisteredHandler } from './handler-registry.js';
import type { InFlight } from './in-flight.js';
import type { InboxContext } from './inbox-context.js';
import { InboxMessage, type StoredMessage } from './inbox-message.js';
import type { ResolvedInboxOptions } from './inbox-options.js';

/** What the code under a handler can ask for without being handed it. */
export interface AmbientMessage {
  readonly messageId: string;
  readonly traceId: string;
}

const ambient = new AsyncLocalStorage<AmbientMessage>();

/** The message that is being handled in this asynchronous context; undefined outside a handler. */
export function currentMessage(): AmbientMessage | undefined {
  return ambient.getStore();
}

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
      return { timeoutMs, policy, transactional, ...bindBatch(batch, logger, load, this.inFlight) };
    }
    return {
      timeoutMs,
      policy,
      transactional,
      batch: null,
      invoke: async (candidate, tools) => {
        const message = new InboxMessage(await this.withBody(candidate));
        const traceId = traceIdOf(message);
        const context = contextOf(message.id, traceId, tools, logger);
        tools.started?.();
        const flight = { id: message.id, source: message.source, type: message.type, attempt: tools.attempt };
        await this.inFlight.during(flight, () =>
          ambient.run({ messageId: message.id, traceId }, () => handler.call(message, context)),
        );
      },
    };
  }

  /** Large bodies were left out when the message was read ahead. */
  private async withBody(candidate: Candidate): Promise<StoredMessage> {
    const message = candidate as Candidate & StoredMessage & { readonly body_bytes: number | null };
    if (message.body !== null || !message.body_bytes) return message;
    const [row] = await this.pool.rows<Row & { body: Buffer | null }>(
      `SELECT body FROM ${this.table.name} WHERE id = ?`,
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
    signal: tools.signal,
    attempt: tools.attempt,
    messageId,
    traceId,
    logger,
  };
}

/** The trace id of a W3C traceparent (version-traceid-parentid-flags), else the request's id, else the message's. */
function traceIdOf(message: InboxMessage): string {
  try {
    const { traceparent, 'x-request-id': requestId } = message.headers;
    return /^[0-9a-f]{2}-([0-9a-f]{32})-/.exec(traceparent ?? '')?.[1] ?? requestId ?? message.id;
  } catch {
    // Headers that cannot be decoded are the handler's to meet, not a reason to fail before it.
    return message.id;
  }
}
