import { Logger } from '@nestjs/common';
import type { SchedulerRegistry } from '@nestjs/schedule';
import type { DataSource } from 'typeorm';
import {
  applicationConnections,
  applicationPoolSize,
  ControlPool,
  detectDialect,
  type OpenConnections,
} from '../database/index.js';
import {
  ClaimStore,
  type CompetingParts,
  Crowds,
  EntityOrderStore,
  HandlerSession,
  NeighbourLookup,
  OneByOne,
  OutcomeBatch,
  OutcomeWriter,
  PutOffStore,
  RecoveryStore,
  Stragglers,
  UnknownTypes,
} from '../delivery/index.js';
import { newInstanceId } from '../lease/index.js';
import type { MailroomEvents, Tracing } from '../observability/index.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import { BacklogAlarm, breakerRules } from '../pressure/index.js';
import { outboxBacklog } from './backlog.store.js';
import { CommitWatcher } from './commit-watcher.js';
import { OutboxHandlerRegistry } from './handler-registry.js';
import { OrderKeysStore } from './order-keys.store.js';
import { OutboxService } from './outbox.service.js';
import { outboxEvents } from './outbox-events.js';
import { type OutboxOptions, type ResolvedOutboxOptions, resolveOutboxOptions } from './outbox-options.js';
import { OutboxQueries } from './outbox-queries.js';
import { OutboxRuns } from './outbox-runs.js';
import { outboxTable } from './outbox-table.js';
import { ReceiverStore } from './receiver.store.js';
import { Relay } from './relay.js';
import { RelayBox } from './relay-box.js';
import { TransportBreakers } from './transport-breakers.js';
import { WakeBus } from './wake-bus.js';

/** Time beyond its timeout after which the server ends the connection of a handler whose process is frozen. */
const waitSlackSeconds = 30;

/** The outbox, put together. */
export interface OutboxParts {
  readonly options: ResolvedOutboxOptions;
  readonly registry: OutboxHandlerRegistry;
  readonly pool: ControlPool;
  readonly relay: Relay;
  /** Null without `outbox.wake`. */
  readonly bus: WakeBus | null;
  readonly service: OutboxService;
  readonly connections: OpenConnections | null;
  readonly dataSource: DataSource;
  /** Connections that handlers may use. */
  readonly poolSize: number;
  /** Name of the database. */
  readonly database: string;
  /** Ends what was begun when it was built. */
  unwatch(): void;
}

export interface OutboxSurroundings {
  readonly dataSource: DataSource;
  readonly events: MailroomEvents;
  readonly tracing: Tracing;
  readonly scheduler: SchedulerRegistry | undefined;
}

/** @throws InvalidOptionsError when the options are wrong */
export function buildOutbox(
  given: OutboxOptions,
  { dataSource, events, tracing, scheduler }: OutboxSurroundings,
): OutboxParts {
  const options = resolveOutboxOptions(given);
  const pool = new ControlPool(dataSource, { size: options.controlPool });
  const registry = new OutboxHandlerRegistry(options);
  const breakers = new TransportBreakers(breakerRules(options.breaker, 'outbox.breaker'), events);
  const putOff = new PutOffStore(pool, outboxTable);
  const order = new EntityOrderStore(pool, outboxTable);
  const told = outboxEvents(events);
  const crowds = new Crowds(order, {
    ended: () => relay.wake(),
    putOff: (what) => told.emit({ name: 'put-off', ...what }),
    failed: (error) => relay.failed(error),
  });
  const box = new RelayBox(options, registry, breakers, pool, putOff, new UnknownTypes(putOff, crowds), tracing);
  const store = new ClaimStore(pool, outboxTable);
  const dialect = () => detectDialect(pool);
  const parts: CompetingParts = {
    box,
    owner: newInstanceId(),
    store,
    order,
    crowds,
    oneByOne: new OneByOne(),
    neighbours: new NeighbourLookup(pool, outboxTable),
    writer: new OutcomeWriter(store, outboxTable.words),
    successes: new OutcomeBatch(store),
    stragglers: new Stragglers(store, order, told),
    events: told,
    dataSource,
    newSession: () =>
      new HandlerSession(dataSource, dialect, Math.ceil(registry.longestTimeoutMs() / 1000) + waitSlackSeconds),
  };
  const receivers = new ReceiverStore(pool);
  const recovery = new RecoveryStore(pool, outboxTable, box);
  const alarm = new BacklogAlarm(
    options.backlogAlarm,
    (countTo) => outboxBacklog(pool, countTo),
    (state, waiting) => events.emit({ name: 'backlog', box: 'outbox', state, ...waiting }),
  );
  const relay = new Relay(options, { parts, box, breakers, receivers, recovery, events, tracing, alarm }, scheduler);
  const bus = wakeBusOf(options, databaseOf(dataSource), relay);
  // Who sends looks itself; others are told by those that do not.
  const wake = () => (relay.isRunning ? relay.wake() : bus?.tell());
  const watcher = new CommitWatcher(wake);
  return {
    options,
    registry,
    pool,
    relay,
    bus,
    service: new OutboxService(
      { watcher, pool, orderKeys: new OrderKeysStore(pool), wake, carried: () => tracing.carried() },
      relay,
      receivers,
      new OutboxQueries(pool),
      new OutboxRuns(pool, parts.owner, order, wake),
    ),
    connections: applicationConnections(dataSource),
    dataSource,
    poolSize: applicationPoolSize(dataSource),
    database: databaseOf(dataSource),
    unwatch: watcher.watch(dataSource),
  };
}

function wakeBusOf(options: ResolvedOutboxOptions, database: string, relay: Relay): WakeBus | null {
  const { wake, namespace = database, enabled } = options;
  if (!wake) return null;
  return new WakeBus({
    ...wake,
    namespace,
    onWake: enabled ? () => relay.wake() : null,
    onError: quietly(new MailroomLogger('OutboxModule')),
  });
}

/** A Redis that is away reports an error with every reconnect; one line each half minute tells as much. */
function quietly(logger: Logger): (error: Error) => void {
  let lastAt = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (performance.now() - lastAt < 30_000) return;
    lastAt = performance.now();
    logger.warn({ msg: 'Redis is not available; messages are found by the poll', error: error.message });
  };
}

function databaseOf({ options, driver }: DataSource): string {
  return (typeof options.database === 'string' ? options.database : driver.database) ?? 'mailroom';
}
