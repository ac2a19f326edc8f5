import { IntakeRefusedError } from '../errors/intake-refused.error.js';
import { entityHash, laneOf } from '../message/entity-hash.js';
import type { Trace } from '../observability/index.js';
import { keyBytes } from './message-key.js';
import { callOwn } from './own-function.js';
import type { Push } from './push.js';
import type { KeyValue, ResolvedSource } from './source-options.js';

/** A message as it will be stored. */
export interface MessageDraft {
  readonly source: string;
  readonly type: string;
  readonly dedupKey: Buffer | null;
  readonly entityKey: Buffer | null;
  readonly open: string | null;
  readonly lane: number;
  readonly sequence: string | null;
  /** How long after its arrival it falls due; 0: at once. */
  readonly delayMs: number;
  readonly headers: string | null;
  readonly traceId: string;
  readonly contentType: string | null;
  readonly body: Buffer;
}

export interface DraftOptions {
  readonly lanes: number;
  readonly trace: Trace;
}

const typePattern = /^[\x21-\x7e]{1,128}$/;
const mostItems = 500;
const year2000 = Date.UTC(2000);
const year2100 = Date.UTC(2100);
const alwaysStored = ['content-type', 'x-request-id'];
const ofTheTrace = ['traceparent', 'tracestate'] as const;
/** Headers are for tracing and decoding; a sender must not fill the table with them. */
const longestHeader = 1_000;

/** The messages of one push. */
export interface Drafts {
  readonly messages: readonly MessageDraft[];
  /** It was split: the sender is answered with a list. */
  readonly isSplit: boolean;
}

/**
 * The messages of a push: one, or one per item of `split`.
 * @throws IntakeRefusedError (400) when the source's functions cannot make sense of it
 */
export function draftMessages(name: string, source: ResolvedSource, push: Push, options: DraftOptions): Drafts {
  const headers = storedHeaders(push, source.storeHeaders ?? [], options.trace);
  const { split } = source;
  const items = split ? callOwn(name, 'split', () => split(push)) : null;
  if (items === null) {
    return { messages: [draft(name, source, push, push.rawBody, undefined, headers, options)], isSplit: false };
  }
  if (!Array.isArray(items) || items.length === 0 || items.length > mostItems) {
    throw new IntakeRefusedError('invalid', `source ${name}: split must give 1 to ${mostItems} items, or null`);
  }
  const messages = items.map((item) => draft(name, source, push, itemBytes(name, item), item, headers, options));
  return { messages, isSplit: true };
}

function draft(
  name: string,
  source: ResolvedSource,
  push: Push,
  body: Buffer,
  item: unknown,
  headers: string | null,
  { lanes, trace }: DraftOptions,
): MessageDraft {
  const type =
    typeof source.type === 'string' ? source.type : callOwn(name, 'type', () => callType(source, push, item));
  if (typeof type !== 'string' || !typePattern.test(type)) {
    throw new IntakeRefusedError('invalid', `source ${name}: type must be 1 to 128 printable ASCII characters`);
  }
  const { dedupKey: dedup, entityKey: entity, sequence: positionOf } = source;
  const dedupKey = dedup
    ? key(
        name,
        'dedupKey',
        callOwn(name, 'dedupKey', () => dedup(push, item)),
        'required',
      )
    : null;
  const entityKey = entity
    ? key(
        name,
        'entityKey',
        callOwn(name, 'entityKey', () => entity(push, item)),
        'optional',
      )
    : null;
  const sequence = positionOf
    ? position(
        name,
        source.reorder?.by === 'time' && source.reorder.types.has(type),
        callOwn(name, 'sequence', () => positionOf(push, item)),
      )
    : null;
  return {
    source: name,
    type,
    dedupKey,
    entityKey,
    // With order 'skip' no message ever waits for another, so there is nothing to keep open.
    open: entityKey && source.order === 'block' ? entityHash(name, entityKey) : null,
    lane: entityKey ? laneOf(name, entityKey, lanes) : 0,
    sequence,
    // Without an entity or a sequence there is nothing that it could be put before or after.
    delayMs: entityKey && sequence !== null && source.reorder?.types.has(type) ? source.reorder.window : 0,
    headers,
    traceId: trace.traceId,
    contentType: push.contentType?.slice(0, 128) ?? null,
    body,
  };
}

function callType(source: ResolvedSource, push: Push, item: unknown): string {
  return typeof source.type === 'string' ? source.type : source.type(push, item);
}

function key(
  name: string,
  option: string,
  value: KeyValue | null | undefined,
  need: 'required' | 'optional',
): Buffer | null {
  if (value === null || (value === undefined && need === 'optional')) return null;
  const bytes = value === undefined ? null : keyBytes(value);
  if (bytes === null) {
    throw new IntakeRefusedError(
      'invalid',
      `source ${name}: ${option} must give text, a whole number up to 2^53, a bigint or bytes, not empty`,
    );
  }
  return bytes;
}

function position(name: string, isTime: boolean, value: number | bigint | null | undefined): string | null {
  if (value === null || value === undefined) return null;
  if (isTime && !(value >= year2000 && value < year2100)) {
    throw new IntakeRefusedError(
      'invalid',
      `source ${name}: sequence must give milliseconds since 1970, between the years 2000 and 2100`,
    );
  }
  if (typeof value === 'bigint' ? value >= -(2n ** 63n) && value < 2n ** 63n : Number.isSafeInteger(value))
    return value.toString();
  throw new IntakeRefusedError('invalid', `source ${name}: sequence must give a whole number`);
}

/** An item is stored as the JSON of the parsed value: the bytes of a part of a body have no boundaries of their own. */
function itemBytes(name: string, item: unknown): Buffer {
  if (Buffer.isBuffer(item)) return item;
  const text = callOwn(name, 'split', () => JSON.stringify(item)) as string | undefined;
  if (text === undefined)
    throw new IntakeRefusedError('invalid', `source ${name}: split gave an item that is no JSON value`);
  return Buffer.from(text);
}

function storedHeaders(push: Push, further: readonly string[], trace: Trace): string | null {
  const stored: Record<string, string> = {};
  for (const header of [...alwaysStored, ...further]) {
    const value = push.header(header);
    if (value !== undefined) stored[header] = value.slice(0, longestHeader).toWellFormed();
  }
  for (const header of ofTheTrace) {
    if (trace[header] !== undefined) stored[header] = trace[header];
    else delete stored[header];
  }
  return Object.keys(stored).length === 0 ? null : JSON.stringify(stored);
}
