import { type Trace, traceOf } from '../observability/index.js';

/** What is read of a message so that events can tell of it. `headers`: JSON. */
export interface ToldMessage {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly headers?: string | null;
  readonly entity_key?: Buffer | null;
  /** As the database wrote it, in UTC. Null: it is not known, as of rows that others insert. */
  readonly received_at?: string | null;
  /** Of the outbox. */
  readonly created_at?: string | null;
  readonly message_id?: string;
  readonly message_key?: Buffer | null;
  readonly receiver?: Buffer | null;
}

/** What every event about an attempt tells. The last two: of messages of the outbox alone. */
export interface MessageFacts {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly attempt: number;
  readonly traceId: string;
  readonly entity: string | null;
  readonly messageId?: string;
  readonly receiver?: string | null;
}

/** @param attempt 1 for the first */
export function messageFacts(message: ToldMessage, attempt: number): MessageFacts {
  const { id, source, type, entity_key: entity, message_key: key, message_id: messageId, receiver } = message;
  const { traceId } = storedTrace(message);
  if (messageId === undefined) return { id, source, type, attempt, traceId, entity: text(entity) };
  return { id, source, type, attempt, traceId, entity: text(key), messageId, receiver: text(receiver) };
}

/**
 * Since it was received or enqueued, by the clocks of the database and of this process together: off by as much as they
 * differ, never below 0. Null: it is not known.
 */
export function ageMs({ received_at: received, created_at: created }: ToldMessage): number | null {
  const at = received ?? created;
  if (at === null || at === undefined) return null;
  const ms = Date.now() - Date.parse(`${at.replace(' ', 'T')}Z`);
  return Number.isNaN(ms) ? null : Math.max(0, ms);
}

/** A message is asked when it is handled and when its outcome is told. */
const traces = new WeakMap<ToldMessage, Trace>();

/** The trace that came with a stored message; its id where none did. */
export function storedTrace(message: ToldMessage): Trace {
  const known = traces.get(message);
  if (known) return known;
  const trace = traceOf(headersOf(message), message.message_id ?? message.id);
  traces.set(message, trace);
  return trace;
}

/** Headers that cannot be decoded are the handler's to meet, not a reason to fail before it. */
function headersOf({ headers }: ToldMessage): Readonly<Record<string, unknown>> {
  if (typeof headers !== 'string') return {};
  try {
    return (JSON.parse(headers) as Record<string, unknown> | null) ?? {};
  } catch {
    return {};
  }
}

function text(key: Buffer | null | undefined): string | null {
  return key?.toString('utf8') ?? null;
}
