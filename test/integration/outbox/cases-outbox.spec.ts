// Cases of other systems that have no place in the files beside this one; the list is in test/README.md.
import type { DataSource } from 'typeorm';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { notingTransport, type OutboxApp, outboxCounts, startOutboxApp } from '../../support/outbox-app.js';
import { type TcpSwitch, tcpSwitch } from '../../support/tcp-switch.js';
import { waitUntil } from '../../support/wait-until.js';

const transactions = Number(process.env.ENQUEUES ?? 1_000);

let database: TestDatabase;
let running: OutboxApp[] = [];
let cable: TcpSwitch | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('cases_outbox'));
  await database.query('CREATE TABLE business (id INT PRIMARY KEY)');
});
afterEach(async () => {
  for (const app of running) await app.close();
  running = [];
  await cable?.close();
  cable = undefined;
  for (const table of ['outbox_message', 'business']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

const on = { enabled: true, pollInterval: 50 } as const;

/** The isolation level of its connections is left at the server's default: REPEATABLE READ. */
function enqueueOne(app: OutboxApp, dataSource: DataSource, n: number): Promise<unknown> {
  return dataSource.transaction(async (manager) => {
    await manager.query('INSERT INTO business (id) VALUES (?)', [n]);
    await app.outbox.enqueue(manager, { topic: 't', payload: n });
  });
}

test('C27 four relays that poll an almost empty table cost no business transaction a deadlock', async () => {
  const arrived = new Set<string>();
  for (let n = 0; n < 4; n++) {
    const transport = notingTransport((message) => {
      arrived.add(message.id);
      return { status: 'sent' };
    });
    running.push(
      await startOutboxApp(database, {
        outbox: { ...on, transports: { out: transport } },
        dataSource: { poolSize: 50 },
      }),
    );
  }
  const [app] = running;
  if (!app) throw new Error('nothing runs');
  const failures: unknown[] = [];
  let next = 0;
  const businessman = async () => {
    for (let n = next++; n < transactions; n = next++)
      await enqueueOne(app, app.dataSource, n).catch((error: unknown) => failures.push(error));
  };
  await Promise.all(Array.from({ length: 50 }, businessman));
  expect(failures).toEqual([]);
  await waitUntil(async () => (await outboxCounts(database)).sent === transactions, { what: 'all are sent' });
  expect(arrived.size).toBe(transactions);
  expect(running.flatMap((one) => one.events('relay-failed'))).toEqual([]);
});

test('C53 sends that take longer than their time are retried, and nothing stays behind', async () => {
  const seen = new Set<string>();
  const transport = notingTransport(async (message, { signal }) => {
    const first = !seen.has(message.id);
    seen.add(message.id);
    if (first && Number(message.payload) % 20 === 0)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    return { status: 'sent' };
  });
  const app = await startOutboxApp(database, {
    outbox: { ...on, transports: { out: transport }, sendTimeout: 200, claimTtl: 1_000, backoff: [10] },
  });
  running.push(app);
  await app.send(Array.from({ length: 200 }, (_, n) => ({ topic: 't', payload: n })));
  await waitUntil(async () => (await outboxCounts(database)).sent === 200, { what: 'all are sent' });
  expect(await app.seen(10, 'send-retrying')).toHaveLength(10);
  expect((await app.outbox.stats()).oldestDueMs).toBeNull();
});

test.each([
  ['for a moment: the mark is written when it is back', 0, 1],
  ['for longer than the claim: sent once more at most, with the same id', 1_500, 2],
])('C55 the database is away between the acknowledgement and the mark, %s', async (_what, awayMs, mostTimes) => {
  const there = Number(new URL(database.url).port);
  const away = await tcpSwitch(there);
  await away.close();
  cable = await tcpSwitch(there);
  const line = cable;
  const through = new URL(database.url);
  through.port = String(line.port);
  const arrived: string[] = [];
  const transport = notingTransport((message) => {
    arrived.push(message.id);
    if (arrived.length === 1) {
      line.pointTo(away.port);
      line.drop();
    }
    return { status: 'sent' };
  });
  const app = await startOutboxApp(database, {
    outbox: { ...on, transports: { out: transport }, claimTtl: 1_000, sendTimeout: 900, recoveryInterval: 100 },
    dataSource: { url: through.href },
  });
  running.push(app);
  const [id] = await app.send({ topic: 't', payload: 1 });
  await waitUntil(() => app.events('relay-failed').length > 0, { what: 'the relay notices' });
  expect(await outboxCounts(database)).toEqual({ sending: 1 });
  const since = performance.now();
  await waitUntil(() => performance.now() - since >= awayMs, { what: 'it was away for long enough' });
  line.pointTo(there);
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'it is marked' });
  const passes = app.events('relay-pass').length;
  await waitUntil(() => app.events('relay-pass').length >= passes + 3, { what: 'the relay looked again' });
  expect(new Set(arrived)).toEqual(new Set([id]));
  expect(arrived.length).toBeLessThanOrEqual(mostTimes);
});
