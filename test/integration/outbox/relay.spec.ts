import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import {
  notingTransport,
  type OutboxApp,
  type OutboxAppOptions,
  outboxCounts,
  startOutboxApp,
} from '../../support/outbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let running: OutboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('relay'));
  await database.query('CREATE TABLE effect (message_id VARCHAR(64) NOT NULL)');
});
afterEach(async () => {
  for (const app of running) await app.close();
  running = [];
  for (const table of ['outbox_message', 'effect', 'mailroom_receiver']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function start(options: OutboxAppOptions): Promise<OutboxApp> {
  const app = await startOutboxApp(database, options);
  running.push(app);
  return app;
}

const on = { enabled: true, pollInterval: 50 } as const;

test('a committed message is handled once, and what its handler writes commits with the sent mark', async () => {
  const app = await start({
    outbox: on,
    handlers: {
      paid: (message, ctx) => ctx.manager.query('INSERT INTO effect (message_id) VALUES (?)', [message.id]),
    },
  });
  const [id] = await app.send({ topic: 'paid', payload: { order: 1 }, key: 'o1' });
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'it is sent' });
  expect(await database.query('SELECT message_id FROM effect')).toEqual([{ message_id: id }]);
  expect(await app.seen(1, 'sent')).toMatchObject([{ topic: 'paid', attempt: 1 }]);
});

test('a rolled-back message never leaves', async () => {
  const transport = notingTransport();
  const app = await start({ outbox: { ...on, transports: { out: transport } } });
  await expect(
    app.dataSource.transaction(async (manager) => {
      await app.outbox.enqueue(manager, { topic: 't', payload: 1 });
      throw new Error('changed my mind');
    }),
  ).rejects.toThrow('changed my mind');
  const [id] = await app.send({ topic: 't', payload: 2 });
  await waitUntil(() => transport.ids().length > 0, { what: 'the other one is sent' });
  expect(transport.ids()).toEqual([id]);
});

test('messages of one key leave in order, also over a retry, and those of other keys do not wait', async () => {
  let failures = 2;
  const transport = notingTransport((message) => {
    if (message.key === 'a' && (message.payload as number) === 0 && failures-- > 0)
      return { status: 'retry', error: new Error('not yet') };
    return { status: 'sent' };
  }, 10);
  const app = await start({ outbox: { ...on, transports: { out: transport }, backoff: [100] } });
  await app.send([0, 1, 2, 3].flatMap((n) => ['a', 'b'].map((key) => ({ topic: 't', key, payload: n }))));
  await waitUntil(async () => (await outboxCounts(database)).sent === 8, { what: 'all are sent' });
  const handed = transport.batches.flat().map(({ key, payload }) => `${key}${payload}`);
  expect(handed.filter((name) => name.startsWith('a'))).toEqual(['a0', 'a0', 'a0', 'a1', 'a2', 'a3']);
  expect(handed.filter((name) => name.startsWith('b'))).toEqual(['b0', 'b1', 'b2', 'b3']);
  expect(handed.indexOf('b3')).toBeLessThan(handed.indexOf('a1'));
});

test('a key with many messages is worked through in order by two relays', async () => {
  const transport = notingTransport(undefined, 10);
  await start({ outbox: { ...on, transports: { out: transport } } });
  const app = await start({ outbox: { ...on, transports: { out: transport } } });
  const ids = await app.send(Array.from({ length: 300 }, (_, n) => ({ topic: 't', key: 'hot', payload: n })));
  await waitUntil(async () => (await outboxCounts(database)).sent === 300, { what: 'all are sent', timeoutMs: 40_000 });
  expect(transport.ids()).toEqual(ids);
});

test('a message that fails for good is dead after its retries, and its followers go on', async () => {
  const transport = notingTransport(({ payload }) =>
    payload === 'bad' ? { status: 'retry', error: new Error('no') } : { status: 'sent' },
  );
  const app = await start({ outbox: { ...on, transports: { out: transport }, maxRetry: 2 } });
  await app.send(['bad', 'good'].map((payload) => ({ topic: 't', key: 'k', payload })));
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'the follower is sent' });
  expect(await outboxCounts(database)).toEqual({ dead: 1, sent: 1 });
  expect(await app.seen(1, 'dead')).toMatchObject([{ topic: 't', attempt: 3 }]);
  expect(transport.batches).toHaveLength(4);
});

test('a send that never answers is given up after sendTimeout and tried again, and others go on meanwhile', async () => {
  const hold = gate();
  let first = true;
  const transport = notingTransport(async ({ payload }) => {
    if (payload === 'slow' && first) {
      first = false;
      await hold.opened;
    }
    return { status: 'sent' };
  });
  const app = await start({ outbox: { ...on, transports: { out: transport }, sendTimeout: 300, claimTtl: 5_000 } });
  await app.send([
    { topic: 't', payload: 'slow' },
    { topic: 't', payload: 'quick' },
  ]);
  await waitUntil(async () => (await outboxCounts(database)).sent === 2, { what: 'both are sent' });
  expect(await app.seen(1, 'send-retrying')).toMatchObject([{ errorKind: 'MAILROOM_HANDLER_TIMEOUT' }]);
  hold.open();
});

test('an unknown topic is put off and does not stand in the way', async () => {
  const app = await start({ outbox: on, handlers: { known: () => undefined } });
  await app.send([
    { topic: 'unknown', payload: 1 },
    { topic: 'known', payload: 2 },
  ]);
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'the known one is sent' });
  await waitUntil(() => app.events('outbox-put-off').length > 0, { what: 'the unknown one is put off' });
  expect(await database.query("SELECT attempts, status FROM outbox_message WHERE topic = 'unknown'")).toEqual([
    { attempts: 0, status: 'pending' },
  ]);
});

test('while a receiver is offline its messages are parked without an attempt, others go on; a wake sends them in order', async () => {
  let online = false;
  const transport = notingTransport(({ receiver }) =>
    receiver === 'bob' && !online ? { status: 'offline' } : { status: 'sent' },
  );
  const app = await start({ outbox: { ...on, transports: { out: transport } } });
  const messages = ['bob', 'amy', 'bob', 'amy', 'bob'].map((receiver, n) => ({
    topic: 'im',
    key: 'c',
    receiver,
    payload: n,
  }));
  await app.send(messages);
  await waitUntil(async () => (await outboxCounts(database)).sent === 2, { what: 'amy has hers' });
  await waitUntil(async () => (await outboxCounts(database)).parked === 1, { what: 'the first of bob is parked' });
  expect(await database.query("SELECT DISTINCT attempts FROM outbox_message WHERE status <> 'sent'")).toEqual([
    { attempts: 0 },
  ]);
  online = true;
  expect(await app.outbox.wakeReceiver('bob')).toEqual({ woken: 1 });
  await waitUntil(async () => (await outboxCounts(database)).sent === 5, { what: 'bob has his' });
  const bobs = transport.batches
    .flat()
    .filter(({ receiver }) => receiver === 'bob')
    .map(({ payload }) => payload);
  expect(bobs.filter((n, at) => bobs.indexOf(n) === at)).toEqual([0, 2, 4]);
  expect(app.events('dead')).toEqual([]);
});

test('a receiver that connects between the offline answer and the park is not missed', async () => {
  const app = await start({
    outbox: {
      ...on,
      parkRecheck: '1h',
      transports: {
        out: notingTransport(async ({ attempt: _attempt }) => {
          if (woken) return { status: 'sent' };
          woken = true;
          await app.outbox.wakeReceiver('bob');
          return { status: 'offline' };
        }),
      },
    },
  });
  let woken = false;
  await app.send({ topic: 'im', receiver: 'bob', payload: 1 });
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'it is sent at once' });
  expect(app.events('parked')).toEqual([]);
});

test('a parked message is tried again at the re-check, and ends as dead when it expired', async () => {
  let online = false;
  const transport = notingTransport(() => ({ status: online ? 'sent' : 'offline' }));
  const app = await start({
    outbox: { ...on, transports: { out: transport }, parkRecheck: 100, recoveryInterval: 100 },
  });
  await app.send([1, 2].map((n) => ({ topic: 'im', receiver: `r${n}`, payload: n })));
  await waitUntil(() => transport.batches.length >= 4, { what: 'both were tried again' });
  await database.query("UPDATE outbox_message SET expires_at = '2001-01-01' WHERE receiver = 'r1'");
  await waitUntil(async () => (await outboxCounts(database)).dead === 1, { what: 'one expired' });
  online = true;
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'the other is sent' });
  expect(await app.seen(1, 'dead')).toMatchObject([{ topic: 'im', errorKind: 'expired' }]);
});

test('a stale sending message is taken over, and the late outcome of its former owner changes nothing', async () => {
  const hold = gate();
  let calls = 0;
  const transport = notingTransport(async () => {
    if (++calls === 1) await hold.opened;
    return { status: 'sent' };
  });
  const app = await start({ outbox: { ...on, transports: { out: transport }, claimTtl: 40_000, sendTimeout: 30_000 } });
  await app.send({ topic: 't', payload: 1 });
  await waitUntil(() => calls === 1, { what: 'it is being sent' });
  await database.query("UPDATE outbox_message SET claim_token = UNHEX(REPEAT('07', 16)), claimed_until = '2001-01-01'");
  await app.outbox.recoverOnce();
  hold.open();
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'it is sent again' });
  expect(calls).toBe(2);
  expect(await app.seen(1, 'send-lost')).toHaveLength(1);
  expect(await app.seen(1, 'sent')).toHaveLength(1);
});

test('waiting messages of a key leave by their sequence; those without one go first, and what is being sent is not overtaken', async () => {
  const hold = gate();
  const transport = notingTransport(async ({ payload }) => {
    if (payload === 'sending') await hold.opened;
    return { status: 'sent' };
  });
  const app = await start({ outbox: { ...on, transports: { out: transport } } });
  await app.send({ topic: 't', key: 'k', payload: 'sending', sequence: 9 });
  await waitUntil(() => transport.batches.length === 1, { what: 'the first is being sent' });
  await app.send([5, 3, 8, 1].map((sequence) => ({ topic: 't', key: 'k', payload: sequence, sequence })));
  await app.send({ topic: 't', key: 'k', payload: 'plain' });
  await waitUntil(async () => (await outboxCounts(database)).held === 4, { what: 'they wait behind it' });
  hold.open();
  await waitUntil(async () => (await outboxCounts(database)).sent === 6, { what: 'all are sent' });
  expect(transport.batches.flat().map(({ payload }) => payload)).toEqual(['sending', 'plain', 1, 3, 5, 8]);
});

test('a batch that is read together leaves by its sequence too', async () => {
  const transport = notingTransport();
  const app = await start({ outbox: { pollInterval: 50, transports: { out: transport } } });
  await app.send([5n, -3n, 8n, 1n].map((sequence) => ({ topic: 't', key: 'k', payload: Number(sequence), sequence })));
  await app.outbox.runOnce();
  expect(transport.batches.flat().map(({ payload }) => payload)).toEqual([-3, 1, 5, 8]);
});
