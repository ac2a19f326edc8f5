import { z } from 'zod';
import { type Duration, duration, fn, parseOptions } from '../../../config/index.js';
import { InvalidOptionsError } from '../../../errors/invalid-options.error.js';
import type { OutboxMessage } from '../../outbox-message.js';
import { type ClientKind, kindOf } from './client-kind.js';
import type { GivenClientProxy } from './given-client.js';

/** What has to be known before a message counts as sent. */
export type Confirmation = 'broker' | 'reply' | 'none';

/** Options of `clientProxyTransport`. Durations are milliseconds or text such as '5s'. */
export interface ClientProxyTransportOptions {
  /** For logs. Default 'client-proxy'. */
  readonly name?: string;
  /**
   * What has to be known before a message counts as sent. 'broker': the broker has taken it (RabbitMQ, Kafka, MQTT with
   * QoS 1 or 2, and clients of your own whose `emit` waits for that). 'reply': the other side has answered, so it must be
   * a `@MessagePattern`; works with every client. 'none': it was written to a socket, and may be lost. Default 'broker'
   * for RabbitMQ, Kafka and clients of your own; for all others it must be given.
   */
  readonly confirm?: Confirmation;
  /** Pattern of the other side's handler. Default the topic. */
  readonly pattern?: (message: OutboxMessage) => unknown;
  /**
   * What the other side's handler gets. Default the payload for RabbitMQ and Kafka, whose messages have headers; for others
   * `{ id, topic, key, payload, headers, createdAt }`, so that the receiver can drop what it has seen by its id.
   */
  readonly data?: (message: OutboxMessage) => unknown;
  /** Time that RabbitMQ's client may keep a message in memory while there is no connection. Default 5s. */
  readonly bufferTimeout?: Duration;
}

const optionsPath = 'clientProxyTransport';

const schema = z.strictObject({
  name: z.string().min(1).max(64).default('client-proxy'),
  confirm: z.enum(['broker', 'reply', 'none'], { error: "write 'broker', 'reply' or 'none'" }).optional(),
  pattern: fn<(message: OutboxMessage) => unknown>('the pattern').optional(),
  data: fn<(message: OutboxMessage) => unknown>('the data').optional(),
  bufferTimeout: duration({ min: 1, max: 3_600_000 }).default(5_000),
});

export type ResolvedClientProxyOptions = ReturnType<typeof resolveClientProxyOptions>;

/** @throws InvalidOptionsError with the option's path, the value and what to write instead */
export function resolveClientProxyOptions(client: GivenClientProxy, options: ClientProxyTransportOptions) {
  const parsed = parseOptions(schema, options, optionsPath);
  if (typeof client?.emit !== 'function' || typeof client.send !== 'function')
    throw new InvalidOptionsError(
      optionsPath,
      client,
      'give a ClientProxy, such as what @Inject of ClientsModule gives',
    );
  const kind = kindOf(client);
  return { ...parsed, kind, confirm: confirmationOf(kind, parsed.confirm) };
}

function confirmationOf(kind: ClientKind, given: Confirmation | undefined): Confirmation {
  const path = `${optionsPath}.confirm`;
  if (kind === 'grpc')
    throw new InvalidOptionsError(optionsPath, 'ClientGrpcProxy', 'gRPC has no events: write a transport of your own');
  const silent = kind === 'tcp' || kind === 'redis' || kind === 'nats';
  if (silent && given === 'broker')
    throw new InvalidOptionsError(path, given, `this client (${kind}) gets no confirmation: write 'reply' or 'none'`);
  if (given !== undefined) return given;
  if (kind === 'mqtt')
    throw new InvalidOptionsError(
      path,
      given,
      "write 'broker' if the client publishes with QoS 1 or 2, else 'reply' or 'none'",
    );
  if (silent)
    throw new InvalidOptionsError(
      path,
      given,
      `this client (${kind}) gets no confirmation: write 'reply' to wait for the answer of a @MessagePattern, or 'none' when messages may be lost`,
    );
  return 'broker';
}
