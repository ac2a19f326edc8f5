import { z } from 'zod';
import { count, type Duration, duration, parseOptions } from '../../../config/index.js';
import { InvalidOptionsError } from '../../../errors/invalid-options.error.js';
import type { GivenRedisClient } from '../../../lease/index.js';
import { WebSocketReceivers } from './web-socket-receivers.js';

/** Options of `websocketTransport`. Durations are milliseconds or text such as '5s'. */
export interface WebSocketTransportOptions {
  /** Where gateways tell which sockets there are. One transport each. */
  readonly receivers: WebSocketReceivers;
  /** For logs. Default 'websocket'. */
  readonly name?: string;
  /** A URL or an ioredis client, which is duplicated, not used; no cluster. Default none: there is one instance only. */
  readonly redis?: string | GivenRedisClient;
  /** Prefix of the channels in Redis. Default the database's name. */
  readonly namespace?: string;
  /** Time that a client has to acknowledge; then its socket is closed. At least 1s less than outbox.sendTimeout. Default 5s. */
  readonly ackTimeout?: Duration;
  /** How often the sockets and the way through Redis are looked at; a dead one is noticed after twice that. Default 15s. */
  readonly heartbeat?: Duration;
  /** Messages that one send takes; it lasts as long as the slowest of its receivers. Default 1. */
  readonly batchSize?: number;
  /** Sockets of one receiver on one instance; the oldest is closed for one more. Default 20. */
  readonly maxSockets?: number;
  /** Frames that one socket may leave unanswered; what comes then is tried again later. Default 100. */
  readonly maxUnanswered?: number;
  /** Characters of frames that one socket may leave unanswered. Default 1,048,576. */
  readonly maxUnansweredBytes?: number;
}

/** Where the options stand, for errors. */
export const optionsPath = 'websocketTransport';

const schema = z.strictObject({
  receivers: z.instanceof(WebSocketReceivers, {
    error: 'write the WebSocketReceivers that the gateways use',
  }),
  name: z.string().min(1).max(64).default('websocket'),
  redis: z
    .union([z.string().regex(/^rediss?:\/\//), z.custom<GivenRedisClient>(isClient)], {
      error: 'write a redis:// URL or an ioredis client',
    })
    .optional(),
  namespace: z.string().min(1).max(64).optional(),
  ackTimeout: duration({ min: 10, max: 600_000 }).default(5_000),
  heartbeat: duration({ min: 100, max: 600_000 }).default(15_000),
  batchSize: count(1, 1_000).default(1),
  maxSockets: count(1, 1_000).default(20),
  maxUnanswered: count(1, 10_000).default(100),
  maxUnansweredBytes: count(1_024, 1_073_741_824).default(1_048_576),
});

export type ResolvedWebSocketOptions = ReturnType<typeof resolveWebSocketOptions>;

/** @throws InvalidOptionsError with the option's path, the value and what to write instead */
export function resolveWebSocketOptions(options: WebSocketTransportOptions) {
  const parsed = parseOptions(schema, options, optionsPath);
  const { redis } = parsed;
  if (typeof redis === 'object' && redis.isCluster)
    throw new InvalidOptionsError(
      `${optionsPath}.redis`,
      redis,
      'a cluster counts the subscribers of one node only: write the URL of one Redis, beside the cluster',
    );
  return parsed;
}

function isClient(value: unknown): boolean {
  return typeof (value as { duplicate?: unknown } | null)?.duplicate === 'function';
}
