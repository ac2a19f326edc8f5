import { createHash } from 'node:crypto';
import { v7 as uuidv7 } from 'uuid';
import { parseDuration } from '../config/index.js';
import { InvalidMessageError } from '../errors/invalid-message.error.js';
import { orderUnit } from '../message/order-unit.js';
import type { OutboxKey, OutgoingMessage } from './outgoing-message.js';

/** A message as it is inserted. */
export interface MessageRow {
  readonly messageId: string;
  readonly topic: string;
  readonly key: Buffer | null;
  readonly receiver: Buffer | null;
  readonly sequence: string | null;
  readonly subject: Buffer | null;
  /** JSON, as bytes: whatever character set the caller's connection has, they arrive as they are. */
  readonly headers: Buffer | null;
  readonly contentType: string;
  readonly payload: Buffer;
  readonly delayMs: number;
  /** Hash of key and receiver; null: no order to keep. */
  readonly unit: string | null;
  readonly strictOrder: boolean;
}

const keyBytesAtMost = 255;
const subjectBytesAtMost = 64;
const longestDelayMs = 30 * 86_400_000;
const headersBytesAtMost = 16_384;
const known: Readonly<Record<keyof OutgoingMessage, true>> = {
  topic: true,
  payload: true,
  key: true,
  receiver: true,
  id: true,
  subject: true,
  delay: true,
  headers: true,
  contentType: true,
  strictOrder: true,
  sequence: true,
};
const fields: ReadonlySet<string> = new Set(Object.keys(known));

/**
 * Checks a message and brings it into the form of its row. Sends nothing.
 * @param carried headers of the message in work, such as traceparent, for what `headers` leaves out
 * @throws InvalidMessageError naming the field and what to write instead
 */
export function messageRow(message: OutgoingMessage, carried: Readonly<Record<string, string>>): MessageRow {
  if (typeof message !== 'object' || message === null)
    throw new InvalidMessageError('message', "write an object such as { topic: 'order.paid', payload }");
  refuseUnknown(message);
  const { topic, strictOrder = false } = message;
  if (typeof topic !== 'string' || !/^[\x21-\x7e]{1,128}$/.test(topic))
    throw new InvalidMessageError('topic', 'write 1 to 128 printable ASCII characters');
  const key = keyBytes(message.key, 'key', keyBytesAtMost);
  const receiver = keyBytes(message.receiver, 'receiver', keyBytesAtMost);
  if (typeof strictOrder !== 'boolean') throw new InvalidMessageError('strictOrder', 'write true or false');
  if (strictOrder && key === null && receiver === null)
    throw new InvalidMessageError('strictOrder', 'order is kept within a key or receiver: give one');
  const { payload, contentType } = payloadBytes(message);
  return {
    messageId: idOf(message.id),
    topic,
    key,
    receiver,
    sequence: sequenceOf(message.sequence),
    subject: keyBytes(message.subject, 'subject', subjectBytesAtMost),
    headers: headerBytes(carried, message.headers),
    contentType,
    payload,
    delayMs: delayOf(message.delay),
    unit: key === null && receiver === null ? null : orderUnit(key, receiver),
    strictOrder,
  };
}

/** A name that is mistyped would be a key or receiver that is not kept in order. */
function refuseUnknown(message: OutgoingMessage): void {
  const unknown = Object.keys(message).find((name) => !fields.has(name));
  if (unknown !== undefined)
    throw new InvalidMessageError(unknown, `there is no such field; write one of ${[...fields].join(', ')}`);
}

/** Bytes of a key as they are stored; longer ones are replaced by their SHA-256. */
export function keyBytes(value: OutboxKey | undefined | null, field: string, atMost: number): Buffer | null {
  if (value === undefined || value === null) return null;
  const bytes = typeof value === 'string' ? Buffer.from(value) : bytesOf(value, field);
  if (bytes.length === 0) throw new InvalidMessageError(field, 'it is empty; leave it out if there is none');
  return bytes.length > atMost ? createHash('sha256').update(bytes).digest() : bytes;
}

function bytesOf(value: unknown, field: string): Buffer {
  if (Buffer.isBuffer(value)) return value;
  if (typeof value === 'bigint' || (typeof value === 'number' && Number.isSafeInteger(value)))
    return Buffer.from(String(value));
  throw new InvalidMessageError(field, 'write text, bytes, a bigint, or a whole number up to 2^53');
}

function idOf(id: string | undefined): string {
  if (id === undefined) return uuidv7();
  if (typeof id !== 'string' || !/^[\x21-\x7e]{1,64}$/.test(id))
    throw new InvalidMessageError('id', 'write 1 to 64 printable ASCII characters, or leave it out');
  return id;
}

function payloadBytes({ payload, contentType }: OutgoingMessage): { payload: Buffer; contentType: string } {
  if (contentType !== undefined && !/^[\x20-\x7e]{1,128}$/.test(contentType))
    throw new InvalidMessageError('contentType', 'write 1 to 128 printable ASCII characters');
  if (payload instanceof Uint8Array)
    return { payload: Buffer.from(payload), contentType: contentType ?? 'application/octet-stream' };
  let json: string | undefined;
  try {
    json = JSON.stringify(payload);
  } catch (error) {
    throw new InvalidMessageError('payload', `it cannot be written as JSON (${(error as Error).message.slice(0, 80)})`);
  }
  if (json === undefined)
    throw new InvalidMessageError('payload', 'it has no JSON form: write a JSON value (null is one), or bytes');
  return { payload: Buffer.from(json), contentType: contentType ?? 'application/json' };
}

function headerBytes(carried: Readonly<Record<string, string>>, given: OutgoingMessage['headers']): Buffer | null {
  if (given !== undefined && (typeof given !== 'object' || given === null || Array.isArray(given)))
    throw new InvalidMessageError('headers', "write an object of text by name, such as { 'x-tenant': 'a' }");
  // A tracestate belongs to its traceparent.
  const { traceparent, tracestate, ...others } = carried;
  const headers = { ...(given?.traceparent === undefined ? carried : others), ...given };
  const entries = Object.entries(headers);
  if (entries.length === 0) return null;
  for (const [name, value] of entries) {
    if (typeof value !== 'string') throw new InvalidMessageError(`headers.${name}`, 'write text');
  }
  const bytes = Buffer.from(JSON.stringify(headers));
  if (bytes.length > headersBytesAtMost)
    throw new InvalidMessageError('headers', `they take ${bytes.length} bytes; write at most ${headersBytesAtMost}`);
  return bytes;
}

function delayOf(delay: OutgoingMessage['delay']): number {
  if (delay === undefined) return 0;
  try {
    const ms = parseDuration(delay as never, 'delay');
    if (ms >= 0 && ms <= longestDelayMs) return ms;
  } catch {
    // Said below, for both.
  }
  throw new InvalidMessageError('delay', "write milliseconds or '30s', at most 30 days");
}

function sequenceOf(sequence: OutgoingMessage['sequence']): string | null {
  if (sequence === undefined) return null;
  const isWhole = typeof sequence === 'bigint' || Number.isSafeInteger(sequence);
  if (!isWhole || BigInt(sequence) < -(2n ** 63n) || BigInt(sequence) >= 2n ** 63n)
    throw new InvalidMessageError('sequence', 'write a whole number of 64 bits');
  return String(sequence);
}
