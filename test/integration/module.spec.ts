// InboxModule in an application: what stops its start-up, where it finds handlers, and what is left after it closed. In
// this process, on a real database.
import {
  Controller,
  type DynamicModule,
  type INestApplication,
  Inject,
  Injectable,
  Module,
  type ModuleMetadata,
  Scope,
} from '@nestjs/common';
import { LazyModuleLoader, REQUEST } from '@nestjs/core';
import { ScheduleModule, SchedulerRegistry } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { DataSource, type DataSourceOptions } from 'typeorm';
import {
  HandlerRegistrationError,
  InboxHandler,
  type InboxHandlerOptions,
  InboxModule,
  type InboxOptions,
  InboxService,
  IntakeRefusedError,
  InvalidOptionsError,
} from '../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../support/database.js';
import { opened } from '../support/open-resources.js';
import { waitUntil } from '../support/wait-until.js';

let database: TestDatabase;
beforeAll(async () => {
  database = await migrated(await createTestDatabase('module'));
});
afterEach(async () => {
  // The last first: an application before the DataSource that it uses.
  for (const close of running.splice(0).reverse()) await close();
  await database.query('DELETE FROM inbox_message');
});
afterAll(() => database.drop());

const running: (() => Promise<void>)[] = [];
const orders = { type: (push: { json: { type: string } }) => push.json.type };
const quick: InboxOptions = { sources: { orders }, shutdown: { readinessDelay: 0 } };

interface Given extends Pick<ModuleMetadata, 'providers' | 'controllers' | 'imports'> {
  readonly inbox?: DynamicModule;
  /** Name of the application's DataSource. */
  readonly name?: string;
}

/** Nest gives no application out, and closes nothing, when it could not be put together: then the test closes this. */
async function connected(options: DataSourceOptions | undefined): Promise<DataSource> {
  if (!options) throw new Error('the DataSource has no options');
  const dataSource = await new DataSource(options).initialize();
  running.push(async () => {
    if (dataSource.isInitialized) await dataSource.destroy();
  });
  return dataSource;
}

/** Starts an application; `afterEach` closes it, also one whose start failed. */
async function start({
  inbox = InboxModule.forRoot(quick),
  name,
  imports = [],
  ...rest
}: Given): Promise<INestApplication> {
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRootAsync({
        ...(name === undefined ? {} : { name }),
        useFactory: () => ({ ...database.options, retryAttempts: 0 }),
        dataSourceFactory: async (options) => connected(options),
      }),
      ScheduleModule.forRoot(),
      ...imports,
      inbox,
    ],
    ...rest,
  }).compile();
  const app = module.createNestApplication({ logger: false });
  const closed = opened({ what: 'an application', close: () => app.close() });
  running.push(async () => {
    await app.close();
    closed();
  });
  return app.init();
}

const push = (app: INestApplication, type: string) =>
  app.get(InboxService).receive('orders', { rawBody: JSON.stringify({ type }) });

const statuses = async () =>
  (await database.query<{ status: string }>('SELECT status FROM inbox_message ORDER BY id')).map(
    ({ status }) => status,
  );

/** A class with one handler that says who it is. */
function handlerClass(seen: string[], name: string, type: string, options: InboxHandlerOptions = {}) {
  class Orders {
    @InboxHandler(type, options)
    handle(): void {
      seen.push(name);
    }
  }
  return Orders;
}

describe('start-up stops with the path of an option', () => {
  test.each<[string, object, string]>([
    ['that does not exist', { enabeld: true }, 'inbox.enabeld'],
    ['of a source that does not exist', { sources: { orders: { ...orders, dedup: 1 } } }, 'inbox.sources.orders.dedup'],
    ['that is false as text', { enabled: 'false' }, 'inbox.enabled'],
    ['that takes messages from slow handlers', { handlerTimeout: '5m', orphanAfter: '5m' }, 'inbox.orphanAfter'],
    ['that renews a lease too late', { lease: { ttl: '10s', renew: '5s' } }, 'inbox.lease.renew'],
    ['that lacks its Redis', { lease: { backend: 'redis' } }, 'inbox.lease.redis'],
    ['that contradicts its Redis', { lease: { backend: 'database', redis: 'redis://h' } }, 'inbox.lease.backend'],
    [
      'that mounts a path twice',
      { sources: { a: { ...orders, path: 'in' }, b: { ...orders, path: '/in/' } } },
      'inbox.sources.b.path',
    ],
    ['that is no path', { sources: { orders: { ...orders, path: 'in/:id' } } }, 'inbox.sources.orders.path'],
    [
      'that counts positions of no entity',
      { sources: { orders: { ...orders, sequence: () => 1 } } },
      'inbox.sources.orders.sequence',
    ],
    [
      'that parks what nothing waits for',
      { sources: { orders: { ...orders, order: 'skip', onFailure: 'park' } } },
      'inbox.sources.orders.onFailure',
    ],
    ['that is no duration', { roundInterval: 'soon' }, 'inbox.roundInterval'],
    ['that is a duration below zero', { recoveryInterval: -1 }, 'inbox.recoveryInterval'],
  ])('%s', async (_what, options, path) => {
    const starting = start({ inbox: InboxModule.forRoot({ ...quick, ...options } as InboxOptions) });
    const error = await starting.then(
      () => null,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(InvalidOptionsError);
    expect(error).toMatchObject({ path, message: expect.stringContaining(`${path}: got `) });
  });
});

describe('start-up stops with the name of a handler', () => {
  const refused = (given: Given, kind: new (...args: never[]) => Error, message: RegExp) =>
    start(given).then(
      () => Promise.reject(new Error('the application started')),
      (error: unknown) => {
        expect(error).toBeInstanceOf(kind);
        expect(String(error)).toMatch(message);
      },
    );

  test('that is the second one of its type', async () => {
    const providers = ['a', 'b'].map((name) => ({ provide: name, useClass: handlerClass([], name, 'paid') }));
    await refused(
      { providers },
      HandlerRegistrationError,
      /Orders\.handle: Orders\.handle already handles type 'paid'/,
    );
  });

  test('of a source that does not exist', async () => {
    const providers = [handlerClass([], 'a', 'paid', { source: 'order' })];
    await refused({ providers }, HandlerRegistrationError, /Orders\.handle: there is no source 'order'.* orders/);
  });

  test('whose class is request-scoped', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class Scoped extends handlerClass([], 'a', 'paid') {}
    await refused({ providers: [Scoped] }, HandlerRegistrationError, /Scoped\.handle: its class is request-scoped/);
  });

  test('whose class depends on one that is request-scoped', async () => {
    @Injectable()
    class Dependent extends handlerClass([], 'a', 'paid') {
      constructor(@Inject(REQUEST) readonly request: unknown) {
        super();
      }
    }
    await refused({ providers: [Dependent] }, HandlerRegistrationError, /Dependent\.handle: .*depends on one that is/);
  });

  test.each<[string, object, RegExp]>([
    ['an option that does not exist', { retries: 1 }, /Orders\.handle\.retries: .*does not exist/],
    ['a bad timeout', { timeout: 'soon' }, /Orders\.handle\.timeout: got "soon"/],
  ])('with %s', async (_what, options, message) => {
    const providers = [handlerClass([], 'a', 'paid', options as InboxHandlerOptions)];
    await refused({ providers }, InvalidOptionsError, message);
  });
});

test('handlers are found however they were provided, and one behind a second name counts once', async () => {
  const seen: string[] = [];
  @Controller()
  class InController extends handlerClass(seen, 'controller', 'controller') {}
  const Plain = handlerClass(seen, 'class', 'class');
  const Given = handlerClass(seen, 'useClass', 'useClass');
  const Made = handlerClass(seen, 'useFactory', 'useFactory');
  const Value = handlerClass(seen, 'useValue', 'useValue');
  const app = await start({
    controllers: [InController],
    providers: [
      Plain,
      { provide: 'given', useClass: Given },
      { provide: 'made', useFactory: async () => new Made() },
      { provide: 'value', useValue: new Value() },
      { provide: 'again', useExisting: Plain },
    ],
  });
  const types = ['controller', 'class', 'useClass', 'useFactory', 'useValue'];
  for (const type of types) await push(app, type);
  await app.get(InboxService).runOnce();
  expect(seen).toEqual(types);
  expect(await statuses()).toEqual(types.map(() => 'success'));
});

test('C121 a handler in a module that is loaded lazily is not found: its messages wait, as the guide says', async () => {
  const seen: string[] = [];
  const Late = handlerClass(seen, 'late', 'late');
  @Module({ providers: [Late] })
  class LazyModule {}
  const app = await start({ providers: [handlerClass(seen, 'own', 'own')] });
  await app.get(LazyModuleLoader).load(() => LazyModule);
  for (const type of ['late', 'own']) await push(app, type);
  await app.get(InboxService).runOnce();
  expect(seen).toEqual(['own']);
  expect(await statuses()).toEqual(['pending', 'success']);
});

test('forRootAsync takes its options from an injected configuration', async () => {
  const seen: string[] = [];
  @Module({ providers: [{ provide: 'config', useValue: { source: 'orders' } }], exports: ['config'] })
  class ConfigModule {}
  const inbox = InboxModule.forRootAsync({
    imports: [ConfigModule],
    inject: ['config'],
    useFactory: async ({ source }: { source: string }) => ({ ...quick, sources: { [source]: orders } }),
  });
  const app = await start({ inbox, providers: [handlerClass(seen, 'a', 'paid', { source: 'orders' })] });
  await push(app, 'paid');
  await app.get(InboxService).runOnce();
  expect(seen).toEqual(['a']);
});

test.each<[string, DynamicModule]>([
  ['forRoot', InboxModule.forRoot({ ...quick, dataSource: 'shop' })],
  ['forRootAsync', InboxModule.forRootAsync({ dataSource: 'shop', useFactory: () => quick })],
])('%s works on a named DataSource', async (_what, inbox) => {
  const seen: string[] = [];
  const app = await start({ inbox, name: 'shop', providers: [handlerClass(seen, 'a', 'paid')] });
  await push(app, 'paid');
  await app.get(InboxService).runOnce();
  expect(seen).toEqual(['a']);
});

test('two applications in one process keep their handlers and their lives apart', async () => {
  const seen: string[] = [];
  const inbox = () => InboxModule.forRoot({ ...quick, lease: { backend: 'database', ttl: '1s' } });
  const first = await start({ inbox: inbox(), providers: [handlerClass(seen, 'first', 'paid')] });
  const second = await start({ inbox: inbox(), providers: [handlerClass(seen, 'second', 'paid')] });
  await push(first, 'paid');
  await first.get(InboxService).runOnce();
  await first.close();
  await push(second, 'paid');
  await second.get(InboxService).runOnce();
  expect(seen).toEqual(['first', 'second']);
});

describe('receive()', () => {
  test('answers after the commit, with a receipt', async () => {
    const app = await start({});
    expect(await push(app, 'paid')).toEqual({ id: expect.stringMatching(/^\d+$/), duplicate: false, status: 'stored' });
    expect(await statuses()).toEqual(['pending']);
  });

  test('refuses a source that does not exist and a body that gives no type, and stores nothing', async () => {
    const app = await start({});
    const inbox = app.get(InboxService);
    await expect(inbox.receive('nobody', { rawBody: '{}' })).rejects.toThrow(/nobody/);
    const refusal = inbox.receive('orders', { rawBody: 'type=paid' });
    await expect(refusal).rejects.toThrow(IntakeRefusedError);
    await expect(refusal).rejects.toMatchObject({ statusCode: 400 });
    expect(await statuses()).toEqual([]);
  });
});

describe('the loops', () => {
  const enabled = () => InboxModule.forRoot({ ...quick, enabled: true, lanes: 2, roundInterval: 20, tick: 10 });
  const loops = (registry: SchedulerRegistry) =>
    registry.getTimeouts().filter((name) => name.startsWith('mailroom:inbox:'));

  test('are listed in the SchedulerRegistry while the application runs, and gone once it closed', async () => {
    const app = await start({ inbox: enabled(), providers: [handlerClass([], 'a', 'paid')] });
    const registry = app.get(SchedulerRegistry);
    await waitUntil(() => loops(registry).length > 1, { what: 'the loops wait for their next pass' });
    await app.close();
    expect(loops(registry)).toEqual([]);
  });

  test('an application without consumption has none', async () => {
    const app = await start({ providers: [handlerClass([], 'a', 'paid')] });
    expect(loops(app.get(SchedulerRegistry))).toEqual([]);
  });

  // The leak check of this file looks for the timers and connections that one of them might leave.
  test('ten applications one after the other each handle a message and leave nothing', async () => {
    const seen: string[] = [];
    for (let life = 1; life <= 10; life++) {
      const app = await start({ inbox: enabled(), providers: [handlerClass(seen, String(life), 'paid')] });
      await push(app, 'paid');
      await waitUntil(() => seen.length === life, { what: `life ${life} handles its message` });
      await app.close();
    }
    expect(await statuses()).toEqual(Array.from({ length: 10 }, () => 'success'));
  });
});
