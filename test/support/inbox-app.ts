import type { INestApplication, ModuleMetadata, Type } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test, type TestingModule } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource } from 'typeorm';
import {
  type InboxContext,
  InboxHandler,
  type InboxHandlerOptions,
  type InboxMessage,
  InboxModule,
  type InboxOptions,
  InboxService,
  type MailroomEvent,
  type MailroomEventName,
  MailroomEvents,
  type SourceOptions,
} from '../../src/index.js';
import type { TestDatabase } from './database.js';
import { opened } from './open-resources.js';

/** A running application with an inbox, for tests that drive it with `runOnce()` or let it run. */
export interface InboxApp {
  readonly app: INestApplication;
  readonly inbox: InboxService;
  readonly dataSource: DataSource;
  /** Everything that was emitted so far, of the given names. */
  events<N extends MailroomEventName>(...names: N[]): Extract<MailroomEvent, { name: N }>[];
  close(): Promise<void>;
}

export type TestHandler = (message: InboxMessage<Record<string, unknown>>, ctx: InboxContext) => unknown;

export interface InboxAppOptions {
  /** Handlers of source `test` by type; a pair gives options too. */
  readonly handlers?: Readonly<Record<string, TestHandler | readonly [InboxHandlerOptions, TestHandler]>>;
  /** Merged over options that make a test quick: no shutdown delay, backoff zero, no breaker. */
  readonly inbox?: Partial<InboxOptions>;
  readonly source?: Partial<SourceOptions>;
  readonly imports?: NonNullable<ModuleMetadata['imports']>;
  readonly providers?: readonly Type[];
  /** Extra options of the application's own DataSource. */
  readonly dataSource?: Readonly<Record<string, unknown>>;
  /** Called before the application starts. */
  readonly prepare?: (module: TestingModule) => void;
}

const observed: readonly MailroomEventName[] = [
  'stored',
  'duplicate',
  'ignored',
  'refused',
  'intake-backlog',
  'backlog',
  'succeeded',
  'retrying',
  'failed',
  'late',
  'released',
  'claim-lost',
  'recovered',
  'put-off',
  'breaker',
  'lease-lost',
  'lease-renewed',
  'lease-renewal-failed',
  'round',
  'round-failed',
];

/**
 * An application on `database` (already migrated) with one source `test`: JSON bodies `{ type, id?, entity? }`.
 * Close it in the test that starts it.
 */
export async function startInboxApp(database: TestDatabase, options: InboxAppOptions = {}): Promise<InboxApp> {
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0, ...options.dataSource }),
      ScheduleModule.forRoot(),
      InboxModule.forRoot({
        backoff: [0],
        breaker: false,
        shutdown: { readinessDelay: 0, deadline: '10s' },
        ...options.inbox,
        sources: {
          test: {
            type: (push) => push.json.type,
            dedupKey: (push) => push.json.id ?? null,
            entityKey: (push) => push.json.entity ?? null,
            ...options.source,
          },
          ...options.inbox?.sources,
        },
      }),
      ...(options.imports ?? []),
    ],
    providers: [handlersClass(options.handlers ?? {}), ...(options.providers ?? [])],
  }).compile();
  options.prepare?.(module);
  const app = module.createNestApplication({
    logger: process.env.TEST_LOG ? ['log', 'warn', 'error', 'debug'] : false,
  });
  const seen: MailroomEvent[] = [];
  const events = app.get(MailroomEvents);
  for (const name of observed) events.on(name, (event) => seen.push(event));
  const closed = opened({ what: 'an application with an inbox', close: () => app.close() });
  try {
    await app.init();
  } catch (error) {
    await app.close();
    closed();
    throw error;
  }
  return {
    app,
    inbox: app.get(InboxService),
    dataSource: app.get(DataSource),
    events: <N extends MailroomEventName>(...names: N[]) =>
      seen.filter((event) => (names as string[]).includes(event.name)) as Extract<MailroomEvent, { name: N }>[],
    async close() {
      await app.close();
      closed();
    },
  };
}

function handlersClass(handlers: NonNullable<InboxAppOptions['handlers']>): Type {
  class TestHandlers {}
  for (const [type, entry] of Object.entries(handlers)) {
    const [options, handler] = typeof entry === 'function' ? [{}, entry] : entry;
    const method = `on_${type}`;
    // A function of its own for each type: the decorator writes on the function, and a test may use one for several.
    const value: TestHandler = (message, ctx) => handler(message, ctx);
    Object.defineProperty(TestHandlers.prototype, method, { value, writable: true, configurable: true });
    const descriptor = Object.getOwnPropertyDescriptor(TestHandlers.prototype, method) ?? {};
    InboxHandler(type, { source: 'test', ...options })(TestHandlers.prototype, method, descriptor);
  }
  return TestHandlers;
}

/** Pushes one JSON message to source `test` and returns its id. */
export async function pushJson(inbox: InboxService, body: Readonly<Record<string, unknown>>): Promise<string> {
  const receipt = await inbox.receive('test', { rawBody: JSON.stringify(body) });
  const id = Array.isArray(receipt) ? receipt[0]?.id : (receipt as { id: string | null }).id;
  if (typeof id !== 'string') throw new Error('the push was not stored');
  return id;
}
