import type { OutboxMessage } from '../../outbox-message.js';
import type { ResolvedClientProxyOptions } from './client-proxy-options.js';

/** What is handed to `emit` or `send`. */
export async function outgoingData(message: OutboxMessage, options: ResolvedClientProxyOptions): Promise<unknown> {
  const { kind, data, bufferTimeout } = options;
  if (kind === 'rabbitmq') return rabbitmqRecord(message, data ? data(message) : payloadOf(message), bufferTimeout);
  if (data) return data(message);
  return kind === 'kafka' ? kafkaMessage(message) : envelope(message);
}

/** JSON as its value, other bytes as base64 text. */
function payloadOf({ contentType, body, payload }: OutboxMessage): unknown {
  return isJson(contentType) ? payload : body.toString('base64');
}

function isJson(contentType: string): boolean {
  return /^application\/([\w.+-]+\+)?json\b/i.test(contentType);
}

/** The serializer of ClientRMQ knows records by their class. `mandatory`: given back when no queue takes it. */
async function rabbitmqRecord(message: OutboxMessage, data: unknown, timeout: number): Promise<unknown> {
  const { RmqRecord } = await import('@nestjs/microservices');
  const { id, topic, headers, contentType, key } = message;
  return new RmqRecord(data, {
    messageId: id,
    type: topic,
    headers: { ...headers, 'content-type': contentType, ...(key === null ? {} : { 'message-key': key }) },
    mandatory: true,
    // Of amqp-connection-manager: without it, what was given up here would still go out when the broker is back.
    ...{ timeout },
  });
}

/** Messages of one key go to one partition. */
function kafkaMessage(message: OutboxMessage): unknown {
  const { id, key, headers, contentType, body } = message;
  return {
    key,
    value: isJson(contentType) ? body.toString('utf8') : body,
    headers: { ...headers, 'message-id': id, 'content-type': contentType },
  };
}

function envelope(message: OutboxMessage): unknown {
  const { id, topic, key, headers, createdAt } = message;
  return { id, topic, key, payload: payloadOf(message), headers, createdAt };
}
