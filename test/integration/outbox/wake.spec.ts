// The way from a commit to the relay, here and at other instances. The poll is an hour away, so that what is sent was woken.
import { AsyncLocalStorage } from 'node:async_hooks';
import { Redis } from 'ioredis';
import { InboxHandler, InboxModule, InboxService, type OutboxOptions } from '../../../src/index.js';
import { type CommitCutter, commitCutter } from '../../support/commit-cutter.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import {
  notingTransport,
  type OutboxApp,
  type OutboxAppOptions,
  outboxCounts,
  startOutboxApp,
} from '../../support/outbox-app.js';
import { connectTestRedis, startPrivateRedis, type TestRedis, testRedisUrl } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let redis: TestRedis;
const running: OutboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('wake'));
  redis = await connectTestRedis('wake');
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  for (const table of ['outbox_message', 'inbox_message']) await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await redis.drop();
  await database.drop();
});

const on = { enabled: true, pollInterval: '1h', recoveryInterval: '1h' } as const;

/** Started, and its relay has looked and found nothing. */
async function start(outbox: Partial<OutboxOptions>, options: OutboxAppOptions = {}): Promise<OutboxApp> {
  const app = await startOutboxApp(database, { ...options, outbox });
  running.push(app);
  if (outbox.enabled) await waitUntil(() => isIdle(app), { what: 'the relay is idle' });
  return app;
}
const isIdle = (app: OutboxApp) => app.events('relay-pass').at(-1)?.end === 'idle';
const allSent = (count: number) =>
  waitUntil(async () => (await outboxCounts(database)).sent === count, { what: `${count} are sent` });
const message = (payload: unknown = 1) => ({ topic: 't', payload });

describe('in the same process', () => {
  test('a commit wakes the relay', async () => {
    const app = await start({ ...on, transports: { out: notingTransport() } });
    for (let n = 1; n <= 20; n++) {
      await app.send(message(n));
      await allSent(n);
    }
  });

  test('a commit while the relay is looking for messages is not forgotten', async () => {
    const app = await start({ ...on, transports: { out: notingTransport(undefined, 10) } });
    const senders = Array.from({ length: 8 }, async () => {
      for (let n = 0; n < 25; n++) await app.send(message(n));
    });
    await Promise.all(senders);
    await allSent(200);
  });

  test('the commit of an inbox handler wakes it too', async () => {
    class Handlers {
      @InboxHandler('paid', { source: 'shop' })
      async paid(_message: unknown, { manager }: { manager: Parameters<OutboxApp['outbox']['enqueue']>[0] }) {
        await app.outbox.enqueue(manager, message());
      }
    }
    const app = await start(
      { ...on, transports: { out: notingTransport() } },
      { imports: [InboxModule.forRoot({ sources: { shop: { type: () => 'paid' } } })], providers: [Handlers] },
    );
    await app.app.get(InboxService).receive('shop', { rawBody: '{}' });
    await app.app.get(InboxService).runOnce();
    await allSent(1);
  });

  test('what a local handler enqueues is sent as well', async () => {
    const app = await start(on, {
      handlers: {
        first: (_message, ctx) => app.outbox.enqueue(ctx.manager, { topic: 'second', payload: 2 }),
        second: () => undefined,
      },
    });
    await app.send({ topic: 'first', payload: 1 });
    await allSent(2);
  });

  test('a savepoint that rolled back leaves nothing to send, and the rest is sent', async () => {
    const transport = notingTransport();
    const app = await start({ ...on, transports: { out: transport } });
    await app.dataSource.transaction(async (manager) => {
      await app.outbox.enqueue(manager, message('A'));
      await manager
        .transaction(async (inner) => {
          await app.outbox.enqueue(inner, message('B'));
          throw new Error('changed my mind');
        })
        .catch(() => undefined);
    });
    await allSent(1);
    expect(transport.batches.flat().map(({ payload }) => payload)).toEqual(['A']);
    expect(await database.query('SELECT id FROM outbox_message')).toHaveLength(1);
  });

  test('a commit does not wait for what it woke', async () => {
    const hold = gate();
    const transport = notingTransport(async () => {
      await hold.opened;
      return { status: 'sent' };
    });
    const app = await start({ ...on, concurrency: 1, transports: { out: transport } });
    for (let n = 0; n < 5; n++) await app.send(message(n));
    await waitUntil(() => transport.batches.length === 1, { what: 'the first is being sent' });
    await app.send(message('while it is'));
    hold.open();
    await allSent(6);
  });

  test("nothing of the request's asynchronous context is seen where the message is sent or handled", async () => {
    const request = new AsyncLocalStorage<string>();
    const seen: (string | undefined)[] = [];
    const transport = notingTransport(() => {
      seen.push(request.getStore());
      return { status: 'sent' };
    });
    const app = await start(
      { ...on, transports: { out: transport, local: { name: 'local', local: true } }, route: ({ topic }) => topic },
      { handlers: { local: () => void seen.push(request.getStore()) } },
    );
    for (let n = 1; n <= 5; n++) {
      await request.run(`request ${n}`, () => app.send(['out', 'local'].map((topic) => ({ topic, payload: n }))));
      await allSent(2 * n);
    }
    expect(seen).toEqual(Array.from({ length: 10 }, () => undefined));
  });
});

describe('the connection breaks at COMMIT', () => {
  let cutter: CommitCutter;
  const server = () => new URL(database.url);

  beforeEach(async () => {
    cutter = await commitCutter(Number(server().port || 3306));
  });
  afterEach(async () => {
    for (const app of running.splice(0)) await app.close();
    await cutter.close();
  });

  test.each([
    ['before the server sees it', 'before', 0],
    ['before its answer is seen', 'after', 1],
  ] as const)(
    '%s: the caller gets an error, nothing is sent from memory, the table decides',
    async (_what, when, rows) => {
      const transport = notingTransport();
      const url = server();
      url.hostname = '127.0.0.1';
      url.port = String(cutter.port);
      const app = await start({ ...on, transports: { out: transport } }, { dataSource: { url: url.href } });
      const passes = app.events('relay-pass').length;
      cutter.cutNext(when, 'INSERT INTO outbox_message');
      await expect(app.send(message())).rejects.toThrow();
      expect(cutter.cuts).toBe(1);
      expect(app.events('relay-pass')).toHaveLength(passes);
      expect(transport.batches).toEqual([]);
      expect(await database.query('SELECT id FROM outbox_message')).toHaveLength(rows);
      await app.outbox.runOnce();
      expect(transport.batches).toHaveLength(rows);
    },
  );
});

describe('at other instances, through Redis', () => {
  const wake = { redis: testRedisUrl() };
  const namespace = () => redis.prefix.slice(0, -1);
  const listeners = async (client = redis.client) =>
    Number((await client.pubsub('NUMSUB', `${namespace()}:outbox:wake`))[1]);

  async function startPair(more: Partial<OutboxOptions> = {}, client = redis.client) {
    const transport = notingTransport();
    const options = { transports: { out: transport }, namespace: namespace(), wake, ...more };
    const worker = await start({ ...on, ...options });
    const door = await start({ ...options, enabled: false });
    await waitUntil(async () => (await listeners(client)) === 1, { what: 'the worker listens' });
    await waitUntil(() => isIdle(worker), { what: 'the worker is idle' });
    return { transport, worker, door };
  }

  test('an instance that does not send wakes one that does', async () => {
    const { door, worker } = await startPair();
    for (let n = 1; n <= 10; n++) {
      await door.send(message(n));
      await allSent(n);
    }
    expect(await worker.seen(10, 'sent')).toHaveLength(10);
  });

  test('so does a receiver that connects there', async () => {
    let online = false;
    const transport = notingTransport(() => ({ status: online ? 'sent' : 'offline' }));
    const { door } = await startPair({ transports: { out: transport } });
    await door.send({ ...message(), receiver: 'bob' });
    await waitUntil(async () => (await outboxCounts(database)).parked === 1, { what: 'it is parked' });
    online = true;
    await door.outbox.wakeReceiver('bob');
    await allSent(1);
  });

  test('one commit after the other shares a message, and the last one is never forgotten', async () => {
    const { door } = await startPair();
    await Promise.all(Array.from({ length: 200 }, (_, n) => door.send(message(n))));
    await allSent(200);
  });

  test('applications with different namespaces do not wake each other', async () => {
    await startPair();
    const heard: string[] = [];
    const spy = new Redis(redis.url, { retryStrategy: null });
    try {
      await spy.subscribe(`${namespace()}:outbox:wake`, `${namespace()}:other:outbox:wake`);
      spy.on('message', (channel: string) => heard.push(channel));
      const other = await start({ transports: { out: notingTransport() }, namespace: `${namespace()}:other`, wake });
      await other.send(message());
      await waitUntil(() => heard.length > 0, { what: 'it is told' });
      expect(heard).toEqual([`${namespace()}:other:outbox:wake`]);
    } finally {
      spy.disconnect();
    }
  });

  test('while Redis is frozen or gone commits are as quick as ever, and the poll finds what was committed', async () => {
    const server = await startPrivateRedis();
    const client = new Redis(server.url, { retryStrategy: () => 50 });
    client.on('error', () => undefined);
    try {
      const { door, worker } = await startPair({ wake: { redis: server.url }, pollInterval: 200 }, client);
      await door.send(message('woken'));
      await allSent(1);
      server.pause();
      for (let n = 0; n < 20; n++) await door.send(message(n));
      await allSent(21);
      server.resume();
      await server.kill();
      for (let n = 0; n < 20; n++) await door.send(message(n));
      await allSent(41);
      expect(worker.events('relay-failed')).toEqual([]);
      await server.start();
      await waitUntil(async () => (await listeners(client)) === 1, { what: 'the worker listens again' });
    } finally {
      client.disconnect();
      for (const app of running.splice(0)) await app.close();
      await server.remove();
    }
  });
});
