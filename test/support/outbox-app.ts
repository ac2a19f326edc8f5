import type { INestApplication, ModuleMetadata, Provider, Type } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import {
  localTransport,
  type MailroomEvent,
  type MailroomEventName,
  MailroomEvents,
  type OutboxContext,
  OutboxHandler,
  type OutboxHandlerOptions,
  type OutboxMessage,
  OutboxModule,
  type OutboxOptions,
  OutboxService,
  type OutgoingMessage,
  type SendContext,
  type SendResult,
  type Transport,
} from '../../src/index.js';
import type { TestDatabase } from './database.js';
import { opened } from './open-resources.js';
import { waitUntil } from './wait-until.js';

/** A running application with an outbox, for tests that drive it with `runOnce()` or let it run. */
export interface OutboxApp {
  readonly app: INestApplication;
  readonly outbox: OutboxService;
  readonly dataSource: DataSource;
  /** Enqueues in a transaction of its own. */
  send(messages: OutgoingMessage | readonly OutgoingMessage[]): Promise<string[]>;
  /** Everything that was emitted so far, of the given names. */
  events<N extends MailroomEventName>(...names: N[]): Extract<MailroomEvent, { name: N }>[];
  /** The same once there are so many: an event follows its commit, so whoever reads the row can be earlier. */
  seen<N extends MailroomEventName>(count: number, ...names: N[]): Promise<Extract<MailroomEvent, { name: N }>[]>;
  close(): Promise<void>;
}

export type TestOutboxHandler = (message: OutboxMessage<Record<string, unknown>>, ctx: OutboxContext) => unknown;

export interface OutboxAppOptions {
  /** Local handlers by topic; a pair gives options too. */
  readonly handlers?: Readonly<Record<string, TestOutboxHandler | readonly [OutboxHandlerOptions, TestOutboxHandler]>>;
  /** Merged over options that make a test quick: local transport only, backoff zero, no breaker. */
  readonly outbox?: Partial<OutboxOptions>;
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  readonly providers?: readonly Provider[];
  /** Before the application starts: adapters and the like. */
  readonly prepare?: (app: INestApplication) => void;
  readonly dataSource?: Readonly<Record<string, unknown>>;
}

const observed: readonly MailroomEventName[] = [
  'sent',
  'send-retrying',
  'dead',
  'parked',
  'send-released',
  'send-lost',
  'send-recovered',
  'outbox-put-off',
  'transport-breaker',
  'relay-pass',
  'relay-failed',
  'backlog',
];

/** An application on `database` (already migrated). Close it in the test that starts it. */
export async function startOutboxApp(database: TestDatabase, options: OutboxAppOptions = {}): Promise<OutboxApp> {
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0, ...options.dataSource }),
      ScheduleModule.forRoot(),
      OutboxModule.forRoot({
        transports: { local: localTransport() },
        backoff: [0],
        breaker: false,
        ...options.outbox,
      }),
      ...(options.imports ?? []),
    ],
    providers: [handlersClass(options.handlers ?? {}), ...(options.providers ?? [])],
  }).compile();
  const app = module.createNestApplication({
    logger: process.env.TEST_LOG ? ['log', 'warn', 'error', 'debug'] : false,
  });
  const seen: MailroomEvent[] = [];
  const events = app.get(MailroomEvents);
  for (const name of observed) events.on(name, (event) => seen.push(event));
  const closed = opened({ what: 'an application with an outbox', close: () => app.close() });
  options.prepare?.(app);
  try {
    await app.init();
  } catch (error) {
    await app.close();
    closed();
    throw error;
  }
  const dataSource = app.get(DataSource);
  const outbox = app.get(OutboxService);
  const eventsOf = <N extends MailroomEventName>(...names: N[]) =>
    seen.filter((event) => (names as string[]).includes(event.name)) as Extract<MailroomEvent, { name: N }>[];
  return {
    app,
    outbox,
    dataSource,
    send: (messages) => dataSource.transaction((manager) => outbox.enqueue(manager, messages)),
    events: eventsOf,
    async seen(count, ...names) {
      await waitUntil(() => eventsOf(...names).length >= count, { what: `${count} of ${names.join(', ')} are told` });
      return eventsOf(...names);
    },
    async close() {
      await app.close();
      closed();
    },
  };
}

function handlersClass(handlers: NonNullable<OutboxAppOptions['handlers']>): Type {
  class TestHandlers {}
  for (const [topic, entry] of Object.entries(handlers)) {
    const [options, handler] = typeof entry === 'function' ? [{}, entry] : entry;
    const method = `on_${topic}`;
    const value: TestOutboxHandler = (message, ctx) => handler(message, ctx);
    Object.defineProperty(TestHandlers.prototype, method, { value, writable: true, configurable: true });
    const descriptor = Object.getOwnPropertyDescriptor(TestHandlers.prototype, method) ?? {};
    OutboxHandler(topic, options)(TestHandlers.prototype, method, descriptor);
  }
  return TestHandlers;
}

/** A transport that notes what it is handed and answers what `answer` says; without it everything is sent. */
export interface NotingTransport extends Transport {
  readonly batches: OutboxMessage[][];
  /** Ids of all messages, in the order in which they were handed over. */
  ids(): string[];
}

export function notingTransport(
  answer: (message: OutboxMessage, context: SendContext) => SendResult | Promise<SendResult> = () => ({
    status: 'sent',
  }),
  batchSize = 1,
): NotingTransport {
  const batches: OutboxMessage[][] = [];
  return {
    name: 'noting',
    batchSize,
    batches,
    ids: () => batches.flat().map(({ id }) => id),
    async send(messages, context) {
      batches.push([...messages]);
      return Promise.all(messages.map((message) => answer(message, context)));
    },
  };
}

export async function outboxCounts(database: TestDatabase): Promise<Record<string, number>> {
  const rows = await database.query<{ status: string; n: number }>(
    'SELECT status, COUNT(*) AS n FROM outbox_message GROUP BY status',
  );
  return Object.fromEntries(rows.map((row) => [row.status, row.n]));
}
