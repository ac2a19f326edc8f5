import type { OutboxMessage } from '../../outbox-message.js';

/** A message as clients get it. */
export interface Frame {
  readonly messageId: string;
  /** `{ messageId, event, seqNo, payload }` as JSON; the payload's own text is kept as it was enqueued. */
  readonly text: string;
}

/**
 * `event` is the topic. `seqNo` is the message's sequence: a number, text beyond 2^53, null without one.
 * @throws SyntaxError when the payload is not JSON
 */
export function frameOf(message: OutboxMessage): Frame {
  const payload = message.body.toString('utf8');
  JSON.parse(payload);
  const { id, topic, sequence } = message;
  const isSafe = sequence !== null && Number.isSafeInteger(Number(sequence));
  const seqNo = sequence === null ? null : isSafe ? Number(sequence) : String(sequence);
  const head = JSON.stringify({ messageId: id, event: topic, seqNo }).slice(0, -1);
  return { messageId: id, text: `${head},"payload":${payload}}` };
}

/** A client's answer is shorter than that; longer texts are the application's own and are not looked at. */
const longestAnswer = 512;

/** The message id of a client's `{ "ack": "<message id>" }`; null for anything else. */
export function ackIn(data: unknown): string | null {
  if (typeof data === 'object' && data !== null && 'ack' in data) return typeof data.ack === 'string' ? data.ack : null;
  const text = Buffer.isBuffer(data) && data.length <= longestAnswer ? data.toString('utf8') : '';
  if (!text.includes('"ack"')) return null;
  try {
    const answer: unknown = JSON.parse(text);
    return typeof answer === 'object' ? ackIn(answer) : null;
  } catch {
    return null;
  }
}
