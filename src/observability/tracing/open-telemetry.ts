import type * as Api from '@opentelemetry/api';
import { currentMessage } from '../ambient-message.js';
import type { MailroomEvents } from '../events.js';
import { fail, OpenSpans, type Settlement } from './open-spans.js';
import { arrivingTrace, headersOfTrace, type Trace, traceIdOfParent, traceOf } from './trace.js';
import type { TracedAttempt, TracedMessage, Tracing } from './tracing.js';

/** Links of one span at most: the SDK's own default. */
const mostLinks = 128;

/**
 * Spans through the API of OpenTelemetry: an intake is a producer, a handler a consumer under the intake's span, a send a
 * producer under it as well. The attempts at a message are in one trace; a retry is linked with the attempt before it, where
 * that was in this process, else with what it is about. What is handled together has a trace of its own, with links.
 *
 * The stored traceparent is that of the intake's span. Contexts are read and written as W3C trace context, whatever
 * propagator the application has. Without an SDK the API does nothing, and traces are handed on as they came.
 */
export class OpenTelemetryTracing implements Tracing {
  private readonly tracer: Api.Tracer;
  private readonly spans: OpenSpans;

  constructor(
    private readonly api: typeof Api,
    events: MailroomEvents,
  ) {
    this.tracer = api.trace.getTracer('nestjs-mailroom');
    this.spans = new OpenSpans(api.SpanStatusCode.ERROR);
    endWithOutcomes(events, this.spans);
  }

  async receive<T>(
    source: string,
    headers: Readonly<Record<string, unknown>>,
    take: (trace: Trace) => Promise<T>,
  ): Promise<T> {
    const { context, SpanKind, SpanStatusCode, trace } = this.api;
    const parent = this.aroundPush(headers);
    const span = this.tracer.startSpan(
      `store ${source}`,
      {
        kind: SpanKind.PRODUCER,
        attributes: {
          'messaging.system': 'mailroom',
          'messaging.operation.type': 'create',
          'messaging.destination.name': source,
        },
      },
      parent,
    );
    try {
      const within = trace.setSpan(parent, span);
      return await context.with(within, () => take(this.traceOfSpan(span, headers)));
    } catch (error) {
      fail(span, kindOf(error), SpanStatusCode.ERROR);
      throw error;
    } finally {
      span.end();
    }
  }

  async attempt<T>(attempt: TracedAttempt, work: () => Promise<T>): Promise<T> {
    const { context, SpanKind, SpanStatusCode, trace } = this.api;
    const { box, operation, destination, type, messages } = attempt;
    const [only] = messages;
    const alone = messages.length === 1 ? only : undefined;
    // Under the message and not under whatever woke the loop.
    const parent = alone ? this.contextOf(alone.trace) : this.api.ROOT_CONTEXT;
    const span = this.tracer.startSpan(
      `${operation} ${type}`,
      {
        kind: operation === 'handle' ? SpanKind.CONSUMER : SpanKind.PRODUCER,
        links: messages.slice(0, mostLinks).flatMap((message) => this.linkOf(box, message, alone !== undefined)),
        attributes: {
          'messaging.system': 'mailroom',
          'messaging.operation.type': operation === 'handle' ? 'process' : 'send',
          'messaging.destination.name': destination,
          'mailroom.box': box,
          'mailroom.type': type,
          ...(alone
            ? { 'messaging.message.id': alone.messageId, 'mailroom.attempt': alone.attempt }
            : { 'messaging.batch.message_count': messages.length }),
        },
      },
      parent,
    );
    // No SDK, or a trace that is not sampled: there is nothing to end, but what runs below must know of the context.
    if (!span.isRecording()) return context.with(trace.setSpan(parent, span), work);
    const isStored = only?.id !== '0';
    const done = isStored
      ? this.spans.start(
          messages.map(({ id }) => `${box}:${id}`),
          span,
        )
      : () => span.end();
    try {
      return await context.with(trace.setSpan(parent, span), work);
    } catch (error) {
      if (!isStored) fail(span, kindOf(error), SpanStatusCode.ERROR);
      throw error;
    } finally {
      done();
    }
  }

  arriving(headers: Readonly<Record<string, unknown>>): Trace {
    const span = this.api.trace.getActiveSpan();
    return span ? this.traceOfSpan(span, headers) : arrivingTrace(headers);
  }

  carried(): Record<string, string> {
    const span = this.api.trace.getActiveSpan();
    const message = currentMessage();
    if (!span || !this.api.isSpanContextValid(span.spanContext())) return headersOfTrace(message ?? {});
    return headersOfTrace({ ...headersOfSpan(span), requestId: message?.requestId });
  }

  /** Ends spans whose outcome was never told. */
  end(): void {
    this.spans.endAll();
  }

  /** The span of the request where there is one, else what the push says. */
  private aroundPush(headers: Readonly<Record<string, unknown>>): Api.Context {
    const here = this.api.context.active();
    return this.api.trace.getSpan(here) ? here : this.contextOf(traceOf(headers, ''));
  }

  private contextOf(trace: Trace): Api.Context {
    const told = this.spanContextOf(trace);
    return told ? this.api.trace.setSpanContext(this.api.ROOT_CONTEXT, told) : this.api.ROOT_CONTEXT;
  }

  private spanContextOf({ traceparent, tracestate }: Trace): Api.SpanContext | null {
    if (traceparent === undefined || traceIdOfParent(traceparent) === null) return null;
    const [, traceId = '', spanId = '', flags = '0'] = traceparent.split('-');
    return {
      traceId,
      spanId,
      traceFlags: Number.parseInt(flags, 16) & 1,
      isRemote: true,
      ...(tracestate === undefined ? {} : { traceState: this.api.createTraceState(tracestate) }),
    };
  }

  private linkOf(box: string, { id, attempt, trace }: TracedMessage, isAlone: boolean): Api.Link[] {
    if (isAlone && attempt <= 1) return [];
    const former = attempt > 1 ? this.spans.former(`${box}:${id}`) : undefined;
    const context = former ?? this.spanContextOf(trace);
    return context ? [{ context }] : [];
  }

  /** With no SDK behind the API there is no span to tell of. */
  private traceOfSpan(span: Api.Span, headers: Readonly<Record<string, unknown>>): Trace {
    const { traceId } = span.spanContext();
    if (!this.api.isSpanContextValid(span.spanContext())) return arrivingTrace(headers);
    const { requestId } = traceOf(headers, '');
    return { traceId, ...headersOfSpan(span), requestId };
  }
}

function headersOfSpan(span: Api.Span): Pick<Trace, 'traceparent' | 'tracestate'> {
  const { traceId, spanId, traceFlags, traceState } = span.spanContext();
  const flags = traceFlags.toString(16).padStart(2, '0');
  const tracestate = traceState?.serialize();
  return { traceparent: `00-${traceId}-${spanId}-${flags}`, tracestate: tracestate === '' ? undefined : tracestate };
}

function kindOf(error: unknown): string {
  const { refusal, code, name } = (error ?? {}) as { refusal?: unknown; code?: unknown; name?: unknown };
  const kind = [refusal, code, name].find((one) => typeof one === 'string');
  return typeof kind === 'string' ? kind : 'Error';
}

/** An attempt is over when its outcome was committed and told. */
function endWithOutcomes(events: MailroomEvents, spans: OpenSpans): void {
  const inbox = (id: string, settlement: Settlement) => spans.settle(`inbox:${id}`, settlement);
  const outbox = (id: string, settlement: Settlement) => spans.settle(`outbox:${id}`, settlement);
  events.on('succeeded', ({ id }) => inbox(id, { outcome: 'success' }));
  events.on('retrying', ({ id, errorKind }) => inbox(id, { outcome: 'retry', errorKind }));
  events.on('failed', ({ id, errorKind }) => inbox(id, { outcome: 'failed', errorKind }));
  events.on('released', ({ id }) => inbox(id, { outcome: 'released' }));
  events.on('claim-lost', ({ id }) => inbox(id, { outcome: 'lost', errorKind: 'claim-lost' }));
  events.on('recovered', ({ id }) => inbox(id, { outcome: 'recovered', errorKind: 'orphaned' }));
  events.on('sent', ({ id }) => outbox(id, { outcome: 'sent' }));
  events.on('send-retrying', ({ id, errorKind }) => outbox(id, { outcome: 'retry', errorKind }));
  events.on('dead', ({ id, errorKind }) => outbox(id, { outcome: 'dead', errorKind }));
  events.on('parked', ({ id }) => outbox(id, { outcome: 'parked' }));
  events.on('send-released', ({ id }) => outbox(id, { outcome: 'released' }));
  events.on('send-lost', ({ id }) => outbox(id, { outcome: 'lost', errorKind: 'claim-lost' }));
  events.on('send-recovered', ({ id }) => outbox(id, { outcome: 'recovered', errorKind: 'orphaned' }));
}
