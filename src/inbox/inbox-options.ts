import { z } from 'zod';
import { type BackoffOption, backoff, count, type Duration, duration, flag, parseOptions } from '../config/index.js';
import { type InboxTableOption, tableOf, tableOption } from '../delivery/index.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { GivenRedisClient } from '../lease/index.js';
import {
  type BacklogAlarmOptions,
  type BreakerOptions,
  backlogAlarmSchema,
  breakerRules,
  breakerSchema,
} from '../pressure/index.js';
import { type AdmissionLimits, limitSchemas, sourceRules } from './admission-options.js';
import { checkIdempotency, type IdempotencyOptions, idempotencySchema } from './idempotency-options.js';
import { type ResolvedSource, type SourceOptions, sourceSchema } from './source-options.js';

/** Options of `InboxModule.forRoot`. Durations are milliseconds or text such as '30s'. */
export interface InboxOptions {
  /** Whether this instance handles messages. Intake works either way. Default false: a start-up warning says so. */
  readonly enabled?: boolean;
  /** Prefix of everything in Redis; two applications may share one. Default: the database's name. */
  readonly namespace?: string;
  /**
   * Name of the TypeORM DataSource, as given to `TypeOrmModule.forRoot({ name })`; with `forRootAsync` it stands beside
   * `useFactory`. Default: the unnamed one.
   */
  readonly dataSource?: string;
  /** A table that was adopted, instead of our own. Default: `{ name: 'inbox_message' }`. */
  readonly table?: InboxTableOption;
  /** Who pushes, by name (at most 64 ASCII characters). */
  readonly sources: Readonly<Record<string, SourceOptions>>;
  readonly lease?: LeaseOptions;
  /** How often a lane looks whether its next round is due. Costs no query. Default 1s. */
  readonly tick?: Duration;
  /** Pause between rounds of a lane when there is nothing to do: one claim query each. Default 2s. */
  readonly roundInterval?: Duration;
  /**
   * True: a full round starts the next one at once, and intake wakes the consumer of the same process. False keeps the
   * fixed pace of one batch per roundInterval. Default true.
   */
  readonly continuous?: boolean;
  /**
   * Lanes of messages, each handled strictly in order by one instance at a time. 1 is one consumer in the whole fleet.
   * May change at any time: the order within an entity does not depend on it. Default 1.
   */
  readonly lanes?: number;
  /**
   * 'ordered': each lane in order, by one instance at a time. 'competing': all instances beside each other, without any
   * order, `concurrency` messages at a time in each; refuses a source without dedupKey unless it has
   * `allowDuplicates: true`. Default 'ordered'.
   */
  readonly mode?: 'ordered' | 'competing';
  /** With mode 'competing': messages handled at the same time in this process. Default 10. */
  readonly concurrency?: number;
  /** Messages that a round handles before the lease is offered to others; with `continuous` it goes on for a second at least. Default 50. */
  readonly batchSize?: number;
  /** Retries after the first attempt. Default 3. */
  readonly maxRetry?: number;
  /** Delay before each retry. Default [30s, 2m, 10m]; the last value repeats. */
  readonly backoff?: BackoffOption;
  /** Time a handler has. After it its signal is aborted and its transaction ended. Default 60s. */
  readonly handlerTimeout?: Duration;
  /** Timeouts in a row after which a round ends and waits one roundInterval. Default 3. */
  readonly timeoutsPerRound?: number;
  /**
   * How long a claim of a handler with `transactional: false` lives without a sign of its owner. Must exceed every
   * handler's timeout, or a slow handler is started a second time. Default 5m.
   */
  readonly orphanAfter?: Duration;
  /** How often orphans are looked for, beside the change of a lane's holder. Default 30s. */
  readonly recoveryInterval?: Duration;
  /**
   * Event `backlog` and a warning when so much waits, or for so long. False: never. Looked at after each recoveryInterval.
   * Default 500 messages or 10m, for 1m.
   */
  readonly backlogAlarm?: BacklogAlarmOptions | false;
  /**
   * Stops handling the messages of a (source, type) for a while when too many of its recent attempts failed; they are put
   * off without an attempt counted, others flow. Per process. Default on: half of at least 20 attempts in 1m, for 30s.
   */
  readonly breaker?: BreakerOptions | false;
  /**
   * While handlers take longer than usual, fewer lanes of this instance handle a message at the same time; they take
   * turns. False: always all of them. Default true.
   */
  readonly adaptiveConcurrency?: boolean;
  /**
   * Connections of mailroom's own at most, for intake, claims and leases; opened when they are needed. Default 4, and in
   * ordered mode one for each lane, up to 16.
   */
  readonly controlPool?: number;
  /** The way in. The limits hold for each source, unless it has its own; `maxInFlight` for all of them together, default 1000. */
  readonly intake?: AdmissionLimits & {
    /** No commit by then: the sender is answered 503 with Retry-After and pushes again. Default 2s. */
    readonly ackTimeout?: Duration;
    /** Larger bodies are answered 413. Default 1 MiB; per source too. */
    readonly maxBodyBytes?: number;
    /** Somebody has been waiting longer for a connection of mailroom's own, or to be sent: pushes are answered 503 at once. Default 1s. */
    readonly maxPoolWait?: Duration;
  };
  /** Caches in front of the unique key that tells duplicates. Default: none. */
  readonly idempotency?: IdempotencyOptions;
  readonly shutdown?: {
    /** How long readiness says 503 before anything stops, for the load balancer to notice. Default 5s. */
    readonly readinessDelay?: Duration;
    /** Time for everything, the delay included; the platform's killer usually fires at 30s. Default 25s. */
    readonly deadline?: Duration;
  };
}

export interface LeaseOptions {
  /**
   * 'redis' puts redlock in front of the lease rows, so that idle instances do not poll the database; while Redis is
   * away nothing is handled. 'database' needs no Redis. Default 'database'.
   */
  readonly backend?: 'redis' | 'database';
  /** A URL, or an ioredis client, or several of either that are independent of each other. Clients are duplicated, not used. */
  readonly redis?: string | GivenRedisClient | readonly (string | GivenRedisClient)[];
  /** How long a lane stays with an instance that gave no sign. Default 30s. */
  readonly ttl?: Duration;
  /** How often a held lease is renewed. Default a third of ttl. */
  readonly renew?: Duration;
}

const redis = z.union(
  [
    z.string().regex(/^rediss?:\/\//),
    z.custom<GivenRedisClient>((value) => typeof (value as { duplicate?: unknown } | null)?.duplicate === 'function'),
  ],
  { error: 'write a redis:// URL or an ioredis client' },
);

const schema = z.strictObject({
  enabled: flag.default(false),
  namespace: z.string().min(1).max(64).optional(),
  dataSource: z.string().min(1).optional(),
  table: tableOption,
  sources: z.record(
    z.string().regex(/^[\x21-\x7e]{1,64}$/, 'name a source with 1 to 64 printable ASCII characters'),
    sourceSchema,
    { error: 'write an object of sources by name' },
  ),
  lease: z
    .strictObject({
      backend: z.enum(['redis', 'database'], { error: "write 'redis' or 'database'" }).default('database'),
      redis: z
        .union([redis, z.array(redis).nonempty()], {
          error: 'write a redis:// URL, an ioredis client or a list of them',
        })
        .optional(),
      ttl: duration({ min: 500, max: 3_600_000 }).default(30_000),
      renew: duration({ min: 100 }).optional(),
    })
    .prefault({}),
  tick: duration({ min: 10, max: 60_000 }).default(1_000),
  roundInterval: duration({ min: 10, max: 3_600_000 }).default(2_000),
  continuous: flag.default(true),
  lanes: count(1, 256).default(1),
  mode: z.enum(['ordered', 'competing'], { error: "write 'ordered' or 'competing'" }).default('ordered'),
  concurrency: count(1, 1_000).default(10),
  batchSize: count(1, 1_000).default(50),
  maxRetry: count(0, 1_000).default(3),
  backoff: backoff.prefault(['30s', '2m', '10m']),
  handlerTimeout: duration({ min: 1, max: 3_600_000 }).default(60_000),
  timeoutsPerRound: count(1, 100).default(3),
  orphanAfter: duration({ min: 1_000 }).default(300_000),
  recoveryInterval: duration({ min: 100, max: 3_600_000 }).default(30_000),
  backlogAlarm: backlogAlarmSchema,
  breaker: breakerSchema.or(z.literal(false, 'write false, or an object such as { openFor: 30000 }')).prefault({}),
  adaptiveConcurrency: flag.default(true),
  controlPool: count(2, 100).optional(),
  intake: z
    .strictObject({
      ackTimeout: duration({ min: 10, max: 60_000 }).default(2_000),
      maxBodyBytes: count(0, 1_073_741_824).default(1_048_576),
      maxInFlight: count(1, 1_000_000).default(1_000),
      maxPoolWait: duration({ min: 10, max: 60_000 }).default(1_000),
      ratePerSecond: limitSchemas.ratePerSecond,
      rateBurst: limitSchemas.rateBurst,
      maxBacklog: limitSchemas.maxBacklog,
      maxBacklogAge: limitSchemas.maxBacklogAge,
    })
    .prefault({}),
  idempotency: idempotencySchema.prefault({}),
  shutdown: z
    .strictObject({
      readinessDelay: duration({ max: 600_000 }).default(5_000),
      deadline: duration({ min: 1, max: 3_600_000 }).default(25_000),
    })
    .prefault({}),
});

export type ResolvedInboxOptions = ReturnType<typeof resolveInboxOptions>;

/**
 * Checks the options and fills in the defaults.
 * @throws InvalidOptionsError with the option's path, the value and what to write instead
 */
export function resolveInboxOptions(options: InboxOptions) {
  const { lease, ...parsed } = parseOptions(schema, options, 'inbox');
  // A source named __proto__, as JSON can carry it, would vanish without a word.
  const lost = Object.keys(options.sources).find((name) => !Object.hasOwn(parsed.sources, name));
  if (lost !== undefined) throw new InvalidOptionsError(`inbox.sources.${lost}`, lost, 'give the source another name');
  const clients = lease.redis === undefined ? [] : [lease.redis].flat();
  if (lease.backend === 'redis' && clients.length === 0) {
    throw new InvalidOptionsError(
      'inbox.lease.redis',
      undefined,
      "write a redis:// URL or an ioredis client, or set lease.backend to 'database'",
    );
  }
  if (lease.backend === 'database' && clients.length > 0) {
    throw new InvalidOptionsError(
      'inbox.lease.backend',
      lease.backend,
      "lease.redis is given: set lease.backend to 'redis', or leave lease.redis out",
    );
  }
  const renew = lease.renew ?? Math.floor(lease.ttl / 3);
  if (renew >= lease.ttl / 2) {
    throw new InvalidOptionsError(
      'inbox.lease.renew',
      renew,
      `write less than half of lease.ttl (${lease.ttl} ms), so that one renewal may fail`,
    );
  }
  if (parsed.orphanAfter <= parsed.handlerTimeout) {
    throw new InvalidOptionsError(
      'inbox.orphanAfter',
      parsed.orphanAfter,
      `write more than inbox.handlerTimeout (${parsed.handlerTimeout} ms)`,
    );
  }
  if (parsed.shutdown.readinessDelay >= parsed.shutdown.deadline) {
    throw new InvalidOptionsError(
      'inbox.shutdown.readinessDelay',
      parsed.shutdown.readinessDelay,
      `write less than inbox.shutdown.deadline (${parsed.shutdown.deadline} ms)`,
    );
  }
  if (parsed.mode === 'competing') refuseWhatNeedsOrder(parsed.sources);
  breakerRules(parsed.breaker);
  sourceRules(parsed.sources, parsed.intake);
  const paths = new Map<string, string>();
  for (const [name, source] of Object.entries(parsed.sources)) {
    if (source.path === undefined) continue;
    const other = paths.get(source.path);
    if (other !== undefined) {
      throw new InvalidOptionsError(
        `inbox.sources.${name}.path`,
        source.path,
        `source ${other} has the same path; give each source its own`,
      );
    }
    paths.set(source.path, name);
  }
  const idempotency = checkIdempotency(parsed.idempotency, clients);
  const controlPool = parsed.controlPool ?? defaultControlPool(parsed.mode, parsed.lanes);
  return {
    ...parsed,
    table: tableOf(parsed.table),
    controlPool,
    idempotency,
    lease: { backend: lease.backend, ttl: lease.ttl, renew, redis: clients },
  };
}

/** Few for a door; each lane writes outcomes of its own, which can share a flush of the disk only if they are sent beside each other. */
function defaultControlPool(mode: 'ordered' | 'competing', lanes: number): number {
  return mode === 'ordered' ? Math.min(16, Math.max(4, lanes)) : 4;
}

/** With mode 'competing' nothing keeps two messages of a source apart. */
function refuseWhatNeedsOrder(sources: Readonly<Record<string, ResolvedSource>>): void {
  for (const [name, { dedupKey, allowDuplicates, onFailure, reorder }] of Object.entries(sources)) {
    if (dedupKey === undefined && !allowDuplicates) {
      throw new InvalidOptionsError(
        `inbox.sources.${name}.dedupKey`,
        undefined,
        "with inbox.mode 'competing' a push that comes twice is handled twice, at the same time: give a dedupKey, or write allowDuplicates: true if that does no harm",
      );
    }
    if (onFailure === 'park') {
      throw new InvalidOptionsError(
        `inbox.sources.${name}.onFailure`,
        onFailure,
        "'park' holds an entity's messages back, but with inbox.mode 'competing' there is no order: use mode 'ordered', or onFailure 'continue'",
      );
    }
    if (reorder !== undefined) {
      throw new InvalidOptionsError(
        `inbox.sources.${name}.reorder`,
        reorder.by,
        "with inbox.mode 'competing' messages are handled in no order: use mode 'ordered', or leave reorder out",
      );
    }
  }
}
