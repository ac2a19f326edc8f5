// Order of id and order of commit: apart without strictOrder, the same with it. Transactions overlap by gates.
import type { OutgoingMessage } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { notingTransport, type OutboxApp, startOutboxApp } from '../../support/outbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let app: OutboxApp;
let transport = notingTransport();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('strict_order'));
});
beforeEach(async () => {
  transport = notingTransport(undefined, 100);
  app = await startOutboxApp(database, { outbox: { transports: { out: transport } } });
});
afterEach(async () => {
  await app.close();
  for (const table of ['outbox_message', 'mailroom_order_key']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

const message = (payload: string, more: Partial<OutgoingMessage> = {}): OutgoingMessage => ({
  topic: 't',
  key: 'k',
  payload,
  ...more,
});
const handed = () => transport.batches.flat().map(({ payload }) => payload);

/** A transaction that has enqueued and stays open until it is told to end. */
async function begin(messages: OutgoingMessage | OutgoingMessage[]) {
  const hold = gate();
  const enqueued = gate();
  const done = app.dataSource.transaction(async (manager) => {
    await app.outbox.enqueue(manager, messages);
    enqueued.open();
    await hold.opened;
  });
  done.catch(() => undefined);
  return {
    enqueued: enqueued.opened,
    isEnqueued: () => enqueued.isOpen,
    async commit() {
      hold.open();
      await done;
    },
  };
}

/** A connection of the database waits for a row lock. */
async function somebodyWaits(): Promise<void> {
  await waitUntil(
    async () => {
      const rows = await database.query<{ info: string | null }>(
        "SELECT info FROM information_schema.processlist WHERE db = DATABASE() AND command IN ('Query', 'Execute') AND info LIKE 'UPDATE mailroom_order_key%'",
      );
      return rows.length > 0;
    },
    { what: 'the second one waits for the first' },
  );
}

test('without it the one that commits first leaves first, though its id is higher', async () => {
  const first = await begin(message('enqueued first'));
  await first.enqueued;
  const second = await begin(message('committed first'));
  await second.enqueued;
  await second.commit();
  await app.outbox.runOnce();
  await first.commit();
  await app.outbox.runOnce();
  expect(handed()).toEqual(['committed first', 'enqueued first']);
  const ids = await database.query<{ payload: Buffer }>('SELECT payload FROM outbox_message ORDER BY id');
  expect(ids.map(({ payload }) => JSON.parse(payload.toString()))).toEqual(['enqueued first', 'committed first']);
});

test('with it the second one waits until the first has committed', async () => {
  const first = await begin(message('first', { strictOrder: true }));
  await first.enqueued;
  const second = await begin(message('second', { strictOrder: true }));
  await somebodyWaits();
  expect(second.isEnqueued()).toBe(false);
  await app.outbox.runOnce();
  await first.commit();
  await second.enqueued;
  await second.commit();
  await app.outbox.runOnce();
  expect(handed()).toEqual(['first', 'second']);
});

test('another key does not wait, nor does the same key for another receiver', async () => {
  const first = await begin(message('first', { strictOrder: true }));
  await first.enqueued;
  for (const other of [{ key: 'other' }, { receiver: 'bob' }]) {
    const second = await begin(message('second', { ...other, strictOrder: true }));
    await second.enqueued;
    await second.commit();
  }
  await first.commit();
});

test('transactions with the same keys in opposite order wait for each other, and none of them is lost', async () => {
  const keys = Array.from({ length: 6 }, (_, n) => `k${n}`);
  const rounds = Array.from({ length: 60 }, (_, n) => (n % 2 === 0 ? keys : [...keys].reverse()));
  const ends = await Promise.allSettled(
    rounds.map((order, n) => app.send(order.map((key) => message(`${n}`, { key, strictOrder: true })))),
  );
  expect(ends.filter(({ status }) => status === 'rejected')).toEqual([]);
});

test('transactions that roll back between others do not make them lose a deadlock, also when the key is new', async () => {
  const outcomes = await Promise.allSettled(
    Array.from({ length: 200 }, (_, n) =>
      app.dataSource.transaction(async (manager) => {
        await app.outbox.enqueue(manager, message(`${n}`, { key: `new${Math.floor(n / 20)}`, strictOrder: true }));
        if (n % 3 === 0) throw new Error('changed my mind');
      }),
    ),
  );
  const reasons = outcomes.flatMap((one) => (one.status === 'rejected' ? [String(one.reason.message)] : []));
  expect(new Set(reasons)).toEqual(new Set(['changed my mind']));
});

test('with overlapping transactions, what is handed over is in the order of the commits', async () => {
  const committed: number[] = [];
  const work = Array.from({ length: 100 }, async (_, n) => {
    await app.dataSource.transaction(async (manager) => {
      await app.outbox.enqueue(manager, message(`${n}`, { strictOrder: true }));
      await manager.query('SELECT SLEEP(?)', [Math.random() / 200]);
    });
    committed.push(n);
  });
  let over = false;
  const relayed = (async () => {
    while (!over) await app.outbox.runOnce();
  })();
  await Promise.all(work);
  over = true;
  await relayed;
  while (handed().length < 100) await app.outbox.runOnce();
  const rows = await database.query<{ payload: Buffer }>('SELECT payload FROM outbox_message ORDER BY id');
  expect(handed()).toEqual(rows.map(({ payload }) => JSON.parse(payload.toString())));
  expect(committed).toHaveLength(100);
});
