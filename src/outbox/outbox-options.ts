import { z } from 'zod';
import {
  type BackoffOption,
  backoff,
  count,
  type Duration,
  duration,
  flag,
  fn,
  parseOptions,
} from '../config/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { GivenRedisClient } from '../lease/index.js';
import {
  type BacklogAlarmOptions,
  type BreakerOptions,
  backlogAlarmSchema,
  breakerRules,
  breakerSchema,
} from '../pressure/index.js';
import type { OutboxMessage } from './outbox-message.js';
import type { LocalTransport } from './transports/local-transport.js';
import type { Transport } from './transports/transport.js';

/** Options of `OutboxModule.forRoot`. Durations are milliseconds or text such as '30s'. */
export interface OutboxOptions {
  /** Whether this instance sends. `enqueue` works either way. Default false: a start-up warning says so. */
  readonly enabled?: boolean;
  /** Name of the TypeORM DataSource; with `forRootAsync` it stands beside `useFactory`. Default: the unnamed one. */
  readonly dataSource?: string;
  /** Ways out, by name. */
  readonly transports: Readonly<Record<string, Transport | LocalTransport>>;
  /**
   * Which transport a message takes: a name, or a function of the message, which runs for every attempt and must not
   * wait. Default: the only transport; with several, it must be given. A name that is not there, or a throw, puts the
   * message off: another instance may know better.
   */
  readonly route?: string | ((message: OutboxMessage) => string);
  /**
   * Prefix of the channel in Redis: two applications may share one. Give it where instances name the database differently.
   * Default the database's name.
   */
  readonly namespace?: string;
  /**
   * How instances that do not send tell those that do that something was committed. Default not at all: the poll finds it.
   */
  readonly wake?: {
    /** A URL or an ioredis client, which is duplicated, not used. Redis may be away: then the poll finds it. */
    readonly redis: string | GivenRedisClient;
  };
  /** How often due messages are looked for, beside the wake after a commit in this process. Default 3s. */
  readonly pollInterval?: Duration;
  /** Messages claimed at once. Default 100. */
  readonly batchSize?: number;
  /** Sends, or local handlers, at the same time. Default 10. */
  readonly concurrency?: number;
  /** Retries after the first attempt. Default 5: dead after the sixth failure. */
  readonly maxRetry?: number;
  /** Delay before each retry. Default [5s, 20s, 80s, 320s, 1280s]. */
  readonly backoff?: BackoffOption;
  /** How long a claim lives without a sign of its owner; then others send the message. Default 60s. */
  readonly claimTtl?: Duration;
  /** Time that a send, or a local handler, has. Must be less than claimTtl. Default 10s. */
  readonly sendTimeout?: Duration;
  /** What an offline receiver means: 'park' the message until the receiver is woken, or 'retry' it. Default 'park'. */
  readonly offline?: 'park' | 'retry';
  /** How often parked messages are tried although nobody woke them. Default 5m. */
  readonly parkRecheck?: Duration;
  /** After this time parked, a message ends as dead with the kind `expired`. Default 7d. */
  readonly parkExpiry?: Duration;
  /** How often messages of owners that disappeared are looked for. Default 30s. */
  readonly recoveryInterval?: Duration;
  /**
   * Event `backlog` and a warning when so much waits, or for so long. False: never. Looked at after each recoveryInterval.
   * Default 500 messages or 10m, for 1m.
   */
  readonly backlogAlarm?: BacklogAlarmOptions | false;
  /** Stops sending through a transport for a while when too many of its recent sends failed. Default on, as for the inbox. */
  readonly breaker?: BreakerOptions | false;
  /** Connections of mailroom's own for the relay. Default 4. */
  readonly controlPool?: number;
  readonly shutdown?: {
    /**
     * Time for everything, counted from the first moment of the shutdown, as in the inbox; what is still being sent is
     * given up before it ends, and sent again later. Default 25s.
     */
    readonly deadline?: Duration;
  };
}

const transport = z.custom<Transport | LocalTransport>(
  (value) => {
    const given = value as { local?: unknown; send?: unknown } | null;
    return typeof given === 'object' && given !== null && (given.local === true || typeof given.send === 'function');
  },
  { error: 'write a transport such as localTransport(), or an object with a send method' },
);

const redisSchema = z.union([z.string().regex(/^rediss?:\/\//), z.custom<GivenRedisClient>(isClient)], {
  error: 'write a redis:// URL or an ioredis client',
});

const schema = z.strictObject({
  enabled: flag.default(false),
  dataSource: z.string().min(1).optional(),
  transports: z.record(
    z.string().regex(/^[\x21-\x7e]{1,64}$/, 'name a transport with 1 to 64 printable ASCII characters'),
    transport,
    {
      error: 'write an object of transports by name, such as { local: localTransport() }',
    },
  ),
  route: z
    .union([z.string(), fn<Exclude<NonNullable<OutboxOptions['route']>, string>>('the name of a transport')], {
      error: 'write the name of a transport, or a function of the message that returns one',
    })
    .optional(),
  namespace: z.string().min(1).max(64).optional(),
  wake: z.strictObject({ redis: redisSchema }).optional(),
  pollInterval: duration({ min: 10, max: 3_600_000 }).default(3_000),
  batchSize: count(1, 1_000).default(100),
  concurrency: count(1, 1_000).default(10),
  maxRetry: count(0, 1_000).default(5),
  backoff: backoff.prefault(['5s', '20s', '80s', '320s', '1280s']),
  claimTtl: duration({ min: 1_000, max: 3_600_000 }).default(60_000),
  sendTimeout: duration({ min: 1, max: 3_600_000 }).default(10_000),
  offline: z.enum(['park', 'retry'], { error: "write 'park' or 'retry'" }).default('park'),
  parkRecheck: duration({ min: 100, max: 86_400_000 }).default(300_000),
  parkExpiry: duration({ min: 1_000 }).default(604_800_000),
  recoveryInterval: duration({ min: 100, max: 3_600_000 }).default(30_000),
  backlogAlarm: backlogAlarmSchema,
  breaker: breakerSchema.or(z.literal(false, 'write false, or an object such as { openFor: 30000 }')).prefault({}),
  controlPool: count(2, 100).default(4),
  shutdown: z.strictObject({ deadline: duration({ min: 1, max: 3_600_000 }).default(25_000) }).prefault({}),
});

export type ResolvedOutboxOptions = ReturnType<typeof resolveOutboxOptions>;

/**
 * Checks the options and fills in the defaults.
 * @throws InvalidOptionsError with the option's path, the value and what to write instead
 */
export function resolveOutboxOptions(options: OutboxOptions) {
  const parsed = parseOptions(schema, options, 'outbox');
  if (parsed.sendTimeout >= parsed.claimTtl) {
    throw new InvalidOptionsError(
      'outbox.sendTimeout',
      parsed.sendTimeout,
      `write less than outbox.claimTtl (${parsed.claimTtl} ms)`,
    );
  }
  breakerRules(parsed.breaker, 'outbox.breaker');
  return { ...parsed, route: routeOf(parsed.transports, parsed.route) };
}

function isClient(value: unknown): boolean {
  return typeof (value as { duplicate?: unknown } | null)?.duplicate === 'function';
}

function routeOf(
  transports: Readonly<Record<string, unknown>>,
  route: string | ((message: OutboxMessage) => string) | undefined,
): (message: OutboxMessage) => string {
  if (typeof route === 'function') return route;
  const names = Object.keys(transports);
  const [only] = names;
  if (route === undefined && (only === undefined || names.length > 1)) {
    throw new InvalidOptionsError(
      'outbox.route',
      undefined,
      names.length === 0
        ? 'there is no transport: give at least one, such as transports: { local: localTransport() }'
        : `there are several transports (${names.join(', ')}): write the name of one, or a function of the message`,
    );
  }
  const name = route ?? only ?? '';
  if (!Object.hasOwn(transports, name))
    throw new InvalidOptionsError('outbox.route', name, `write the name of a transport: ${names.join(', ')}`);
  return () => name;
}
