import { randomBytes } from 'node:crypto';

/** The headers that say to which trace a message belongs. */
export const traceHeaders = ['traceparent', 'tracestate', 'x-request-id'] as const;

/** To which trace a message belongs. */
export interface Trace {
  /** The 32 hex digits of `traceparent`, else the request id, else whatever the message is known by. */
  readonly traceId: string;
  /** W3C trace context, as it is handed on. */
  readonly traceparent?: string | undefined;
  readonly tracestate?: string | undefined;
  /** X-Request-ID of the push. */
  readonly requestId?: string | undefined;
}

/** https://www.w3.org/TR/trace-context/#traceparent-header: version 00 ends after the flags, later ones may go on. */
const w3c = /^(?:00|(?!ff)[0-9a-f]{2}(?=.{53}(?:-|$)))-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}/;
const version00 = 55;
/** Of a request id in logs and events: it is the sender's own text. */
const longestId = 128;
/** Tracers must hand on 512 characters; longer ones are dropped as a whole. */
const longestState = 1_000;

/** The trace id of a traceparent; null for text that is none. */
export function traceIdOfParent(traceparent: string | undefined): string | null {
  if (traceparent === undefined) return null;
  if (traceparent.startsWith('00-') && traceparent.length !== version00) return null;
  return w3c.exec(traceparent)?.[1] ?? null;
}

/** The trace that headers tell of. `otherwise`: what the message is known by if they tell of none. */
export function traceOf(headers: Readonly<Record<string, unknown>>, otherwise: string): Trace {
  const requestId = textOf(headers['x-request-id']);
  const traceparent = textOf(headers.traceparent);
  const traceId = traceIdOfParent(traceparent);
  if (traceId === null) return { traceId: requestId?.slice(0, longestId) ?? otherwise, requestId };
  const tracestate = textOf(headers.tracestate);
  return { traceId, traceparent, tracestate: isShort(tracestate) ? tracestate : undefined, requestId };
}

/**
 * The trace of a push that arrives: the one that it tells of, else a new one. A new one is marked as sampled, as a tracer
 * without a rule would: who reads the mark decides whether to record, and an unset one would keep others from it.
 */
export function arrivingTrace(headers: Readonly<Record<string, unknown>>): Trace {
  const given = traceOf(headers, '');
  if (given.traceId !== '') return given;
  const ids = randomBytes(24).toString('hex');
  const traceId = ids.slice(0, 32);
  return { traceId, traceparent: `00-${traceId}-${ids.slice(32)}-01` };
}

/** As headers of a message: those that there are. */
export function headersOfTrace({ traceparent, tracestate, requestId }: Omit<Trace, 'traceId'>): Record<string, string> {
  return {
    ...(traceparent === undefined ? {} : { traceparent }),
    ...(tracestate === undefined ? {} : { tracestate }),
    ...(requestId === undefined ? {} : { 'x-request-id': requestId }),
  };
}

/** A part of it would say something else. */
function isShort(tracestate: string | undefined): boolean {
  return tracestate !== undefined && tracestate.length <= longestState;
}

function textOf(value: unknown): string | undefined {
  const one: unknown = Array.isArray(value) ? value[0] : value;
  return typeof one === 'string' && one !== '' ? one : undefined;
}
