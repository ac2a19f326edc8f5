import { lastValueFrom, type Observable } from 'rxjs';
import type { OutboxMessage } from '../../outbox-message.js';
import type { SendResult, Transport } from '../transport.js';
import { type ClientProxyTransportOptions, resolveClientProxyOptions } from './client-proxy-options.js';
import type { GivenClientProxy } from './given-client.js';
import { outgoingData } from './outgoing-data.js';
import { ReturnedMessages } from './returned-messages.js';

/**
 * Messages go out through a `ClientProxy` of @nestjs/microservices: RabbitMQ, Kafka, MQTT, NATS, Redis, TCP or one of your
 * own. What `sent` means is told by `confirm`. The client is the application's: it is not connected or closed here.
 *
 * With RabbitMQ a message counts as sent when the broker has confirmed it; one that no queue takes is tried again. The
 * message's id is the property `messageId`. With Kafka it is sent when the producer has its acknowledgement; the id is the
 * header `message-id`. A repetition has the same id.
 * @throws InvalidOptionsError when the options are wrong, or when the client gets no confirmation and `confirm` is not given
 */
export function clientProxyTransport(client: GivenClientProxy, options: ClientProxyTransportOptions = {}): Transport {
  const resolved = resolveClientProxyOptions(client, options);
  const { name, confirm, kind, pattern } = resolved;
  const returned = kind === 'rabbitmq' && confirm !== 'none' ? new ReturnedMessages() : null;

  async function hand(message: OutboxMessage, signal: AbortSignal): Promise<SendResult> {
    try {
      const data = await outgoingData(message, resolved);
      await returned?.watch(client);
      const address = pattern ? pattern(message) : message.topic;
      await settled(confirm === 'reply' ? client.send(address, data) : client.emit(address, data), signal);
      if (returned?.take(message.id)) return { status: 'retry', error: new UnroutableError(message.topic) };
      return { status: 'sent' };
    } catch (error) {
      return { status: 'retry', error: error instanceof Error ? error : new Error(String(error)) };
    }
  }

  return {
    name,
    send: (messages, { signal }) => Promise.all(messages.map((message) => hand(message, signal))),
  };
}

/** Ends with the observable, or when the send is given up. */
function settled(outcome: Observable<unknown>, signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    lastValueFrom(outcome, { defaultValue: undefined })
      .then(resolve, reject)
      .finally(() => signal.removeEventListener('abort', onAbort));
    if (signal.aborted) onAbort();
  });
}

class UnroutableError extends Error {
  readonly code = 'unroutable';

  constructor(topic: string) {
    super(`RabbitMQ gave the message back: no queue is bound for ${topic}`);
  }
}
