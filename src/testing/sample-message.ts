import { OutboxMessage } from '../outbox/index.js';
import type { OutboxCandidate } from '../outbox/outbox-message.js';

/** What of a sample matters to the test; the rest is filled in. */
export interface SampleMessage {
  readonly id: string;
  /** Default 'sample'. */
  readonly topic?: string;
  /** Any JSON value. */
  readonly payload: unknown;
  readonly key?: string | null;
  readonly receiver?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** A message as the relay hands it to a transport, for tests of transports. Nothing is stored. */
export function sampleMessage({
  id,
  topic = 'sample',
  payload,
  key = 'sample',
  ...more
}: SampleMessage): OutboxMessage {
  const body = Buffer.from(JSON.stringify(payload));
  const row: OutboxCandidate = {
    id: '1',
    source: 'outbox',
    type: topic,
    attempts: '0',
    error_kind: null,
    open: null,
    due: '2026-01-01 00:00:00.000',
    previous: null,
    next_status: null,
    message_id: id,
    message_key: key === null ? null : Buffer.from(key),
    receiver: more.receiver === undefined ? null : Buffer.from(more.receiver),
    sequence: null,
    subject: null,
    headers: more.headers === undefined ? null : JSON.stringify(more.headers),
    content_type: 'application/json',
    payload_bytes: body.length,
    payload: body,
    created_at: '2026-01-01 00:00:00.000',
    replay_count: '0',
  };
  return new OutboxMessage(row, body);
}
