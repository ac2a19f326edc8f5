import type { SchedulerRegistry } from '@nestjs/schedule';
import type { DataSource } from 'typeorm';
import {
  applicationConnections,
  applicationPoolSize,
  ControlPool,
  type Dialect,
  detectDialect,
  type OpenConnections,
  PacketLimit,
} from '../database/index.js';
import {
  type BoxTable,
  ClosedOffKinds,
  Crowds,
  EntityOrderStore,
  findLanes,
  GroupLockStore,
  HandlerSession,
  LaneBatchStore,
  LaneCompletion,
  type LaneParts,
  LaneStore,
  OneByOne,
  PutOffStore,
  RecoveryStore,
  ReorderStore,
  Slots,
  Solitude,
  Stragglers,
  UnknownTypes,
} from '../delivery/index.js';
import type { KnownIds } from '../idempotency/index.js';
import { InstanceMembership, LeaseKeeper, LeaseRowStore, newInstanceId, openGate, RedisGate } from '../lease/index.js';
import type { MailroomEvents, Tracing } from '../observability/index.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import { Backlog, BacklogAlarm, breakerRules, HandlerLatency, Pressure } from '../pressure/index.js';
import { sourceRules } from './admission-options.js';
import { BacklogStore } from './backlog.store.js';
import { CompetingConsumption, competingParts } from './competing-consumption.js';
import { doorCache } from './door-cache.js';
import { EntityReleaseStore } from './entity-release.store.js';
import { HandlerAdmission } from './handler-admission.js';
import { HandlerRegistry } from './handler-registry.js';
import { ImmediateExecution } from './immediate-execution.js';
import { InFlight } from './in-flight.js';
import { InboxService } from './inbox.service.js';
import { InboxConsumer } from './inbox-consumer.js';
import { InboxDispatcher } from './inbox-dispatcher.js';
import { InboxInsight } from './inbox-insight.js';
import { InboxOperations } from './inbox-operations.js';
import { type InboxOptions, type ResolvedInboxOptions, resolveInboxOptions } from './inbox-options.js';
import { inboxTable } from './inbox-table.js';
import { Intake } from './intake.js';
import { IntakeStore } from './intake.store.js';
import { IntakeAdmission } from './intake-admission.js';
import { IntakeQueue } from './intake-queue.js';
import { IntakeSaving } from './intake-saving.js';
import { LateMessages } from './late-messages.js';
import { OrderedConsumption } from './ordered-consumption.js';
import { WebhookEndpoint } from './webhook-endpoint.js';

/** Time beyond its timeout after which the server ends the connection of a handler whose process is frozen. */
const waitSlackSeconds = 30;

/** The inbox, put together. */
export interface InboxParts {
  readonly options: ResolvedInboxOptions;
  readonly registry: HandlerRegistry;
  readonly pool: ControlPool;
  readonly intake: Intake;
  readonly consumer: InboxConsumer;
  /** `execute` of the service. */
  readonly execution: ImmediateExecution;
  readonly endpoint: WebhookEndpoint;
  /** Breakers and limits; `breakers()` for stats. */
  readonly admission: HandlerAdmission;
  /** What the door and the consumer share. */
  readonly pressure: Pressure;
  /** What the server takes in one packet. */
  readonly packet: PacketLimit;
  /** Whether leases can be had. */
  readonly keeper: Pick<LeaseKeeper, 'probe' | 'heldCount'>;
  /** What the door remembers of keys; null unless that was chosen. */
  readonly known: KnownIds | null;
  readonly service: InboxService;
  /** Connections that handlers may use. */
  readonly poolSize: number;
  readonly connections: OpenConnections | null;
  readonly dataSource: DataSource;
  /** What the server is; asked once, and again after a failure. */
  dialect(): Promise<Dialect>;
}

export interface InboxSurroundings {
  readonly dataSource: DataSource;
  readonly events: MailroomEvents;
  readonly tracing: Tracing;
  readonly scheduler: SchedulerRegistry | undefined;
}

/** @throws InvalidOptionsError when the options are wrong */
export async function buildInbox(
  given: InboxOptions,
  { dataSource, events, tracing, scheduler }: InboxSurroundings,
): Promise<InboxParts> {
  const options = resolveInboxOptions(given);
  const pool = new ControlPool(dataSource, { size: options.controlPool });
  const packet = new PacketLimit(pool);
  const dialect = once(() => detectDialect(pool));
  const registry = new HandlerRegistry(options);
  const table = inboxTable(options.table);
  const pressure = pressureOf(options, new BacklogStore(pool, table), events);
  const admission = new HandlerAdmission(
    { breaker: breakerRules(options.breaker), orphanAfterMs: options.orphanAfter },
    events,
    pressure,
  );
  const inFlight = new InFlight();
  const dispatcher = new InboxDispatcher(registry, options, pool, table, admission, inFlight, pressure, tracing);
  const putOff = new PutOffStore(pool, table);
  const store = new LaneStore(pool, table);
  const order = new EntityOrderStore(pool, table, reorderStore(options, pool, table));
  const crowds = new Crowds(order, {
    ended: () => consumer.wakeAll(),
    putOff: (what) => events.emit({ name: 'put-off', ...what }),
    failed: (error) => consumer.failed(null, error),
  });
  const namespace = namespaceOf(options, dataSource);
  const known = await doorCache(options.idempotency, namespace, quietly('InboxDoor', 'the table answers duplicates'));
  const newKeeper = await leaseKeepers(options, pool, namespace);
  const parts: LaneParts = {
    box: dispatcher,
    keeper: newKeeper(),
    store,
    order,
    crowds,
    recovery: new RecoveryStore(pool, table, dispatcher),
    completion: new LaneCompletion(store, table.words),
    batches: new LaneBatchStore(pool, table),
    groups: new GroupLockStore(pool),
    oneByOne: new OneByOne(),
    unknown: new UnknownTypes(putOff, crowds),
    closedOff: new ClosedOffKinds(putOff, crowds),
    stragglers: new Stragglers(store, order, events),
    solitude: new Solitude(),
    slots: new Slots((workers) => pressure.concurrency(workers)),
    events,
    dataSource,
    newSession: () =>
      new HandlerSession(dataSource, dialect, Math.ceil(registry.longestTimeoutMs() / 1000) + waitSlackSeconds),
    leaseName: (lane) => `inbox:lane:${lane}`,
  };
  const membership = new InstanceMembership(pool, parts.keeper.owner, options.lease.ttl);
  const consumer = new InboxConsumer(
    options,
    parts,
    (onError) =>
      options.mode === 'competing'
        ? new CompetingConsumption(
            options,
            competingParts(parts, pool, table),
            parts.groups,
            pressure,
            scheduler,
            onError,
          )
        : new OrderedConsumption(options, parts, membership, scheduler, onError),
    new BacklogAlarm(
      options.backlogAlarm,
      async (countTo) => {
        const { waiting, oldestDueMs } = await new BacklogStore(pool, table).sample(countTo, true);
        return { messages: waiting, oldestDueMs };
      },
      (state, waiting) => events.emit({ name: 'backlog', box: 'inbox', state, ...waiting }),
    ),
    (from) => findLanes(pool, table, from),
    scheduler,
  );
  const intakeStore = new IntakeStore(pool, table);
  const intakeQueue = new IntakeQueue(intakeStore, () => packet.bytes);
  const longestWaitMs = () => Math.max(pool.longestWaitMs(), intakeQueue.longestWaitMs());
  const intakeAdmission = new IntakeAdmission(options, pressure, { longestWaitMs });
  const saving = new IntakeSaving(intakeStore, intakeQueue, packet, known);
  const intake = new Intake(options, intakeAdmission, saving, events, tracing, (lane) => consumer.wake(lane));
  const execution = new ImmediateExecution(options, parts, newKeeper, (lane) => consumer.wake(lane), tracing);
  return {
    options,
    registry,
    pool,
    intake,
    consumer,
    execution,
    admission,
    pressure,
    packet,
    keeper: parts.keeper,
    known,
    endpoint: new WebhookEndpoint(intake, options),
    service: new InboxService(
      intake,
      consumer,
      execution,
      new InboxOperations(dispatcher.pausedKinds, new EntityReleaseStore(pool, table), order, () => consumer.wakeAll()),
      new InboxInsight(pool, table, { parts, inFlight, admission, late: new LateMessages(events) }),
    ),
    poolSize: applicationPoolSize(dataSource),
    connections: applicationConnections(dataSource),
    dataSource,
    dialect,
  };
}

/** Shared by the door and the consumer. */
function pressureOf(options: ResolvedInboxOptions, store: BacklogStore, events: MailroomEvents): Pressure {
  const now = () => performance.now();
  const rules = sourceRules(options.sources, options.intake);
  const backlog = new Backlog(
    [...rules.values()].map((rule) => rule.backlog),
    {
      sample: (countTo, age) => store.sample(countTo, age),
      onChange: (reason, limit, isClosed) =>
        events.emit({ name: 'intake-backlog', reason, limit, state: isClosed ? 'closed' : 'open' }),
      now,
    },
  );
  return new Pressure(rules, backlog, options.adaptiveConcurrency ? new HandlerLatency(now) : null, now);
}

/** Null: no source has a reorder window. */
function reorderStore({ sources }: ResolvedInboxOptions, pool: ControlPool, table: BoxTable): ReorderStore | null {
  const rules = new Map(
    Object.entries(sources).flatMap(([name, { reorder }]) =>
      reorder ? [[name, { types: reorder.types, windowMs: reorder.window }] as const] : [],
    ),
  );
  return rules.size === 0 ? null : new ReorderStore(pool, table, (source) => rules.get(source) ?? null);
}

/** Makes keepers with an owner each, which share the gate. */
async function leaseKeepers(
  options: ResolvedInboxOptions,
  pool: ControlPool,
  namespace: string,
): Promise<() => LeaseKeeper> {
  const { backend, redis, ttl, renew } = options.lease;
  const gate =
    backend === 'redis'
      ? await RedisGate.open({ redis, namespace, onError: quietly('InboxLease', 'messages are stored and wait') })
      : openGate;
  return () => new LeaseKeeper(gate, new LeaseRowStore(pool), newInstanceId(), { ttlMs: ttl, renewMs: renew });
}

function namespaceOf(options: ResolvedInboxOptions, dataSource: DataSource): string {
  return (
    options.namespace ??
    (typeof dataSource.options.database === 'string' ? dataSource.options.database : dataSource.driver.database) ??
    'mailroom'
  );
}

/** A Redis that is away reports an error with every reconnect; one line each half minute tells as much. */
function quietly(context: string, consequence: string): (error: Error) => void {
  const logger = new MailroomLogger(context);
  let lastAt = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (performance.now() - lastAt < 30_000) return;
    lastAt = performance.now();
    logger.warn({ msg: `Redis is not available; ${consequence}`, error: error.message });
  };
}

function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let answer: Promise<T> | undefined;
  return () => {
    answer ??= ask().catch((error: unknown) => {
      answer = undefined;
      throw error;
    });
    return answer;
  };
}
