// The limits of what shares a statement, seen on the server while it holds the statements back with a table lock; and what
// the application's own connections cannot do to the door.
import { createConnection } from 'mysql2/promise';
import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import type { Receipt } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let app: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('group_limits'));
});
afterEach(async () => {
  await app?.close();
  app = undefined;
  await database.query('DELETE FROM inbox_message');
});
afterAll(() => database.drop());

const push = (body: Readonly<Record<string, unknown>>) =>
  app?.inbox.receive('test', { rawBody: JSON.stringify({ type: 't', ...body }) }) as Promise<Receipt>;

const countRows = async () => (await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n;

/** Number of rows of each INSERT that is at the server now. */
async function insertsAtServer(): Promise<number[]> {
  const list = await database.query<{ Info: string | null; db: string | null }>('SHOW FULL PROCESSLIST');
  return list
    .filter(({ Info, db }) => db === database.name && Info?.startsWith('INSERT INTO'))
    .map(({ Info }) => Info?.match(/'pending'/g)?.length ?? 0);
}

describe('while the server holds statements back', () => {
  /** Runs `work` while nobody can write to the table. */
  async function whileLocked(work: () => Promise<void>): Promise<void> {
    const locker = await createConnection(database.url);
    try {
      await locker.query('LOCK TABLES inbox_message WRITE');
      await work();
    } finally {
      await locker.end();
    }
  }

  async function twoAreOnTheirWay(): Promise<void> {
    await waitUntil(async () => (await insertsAtServer()).length >= 2, { what: 'two batches are on their way' });
    // A third one would have asked for its connection before this.
    await app?.app.get<InboxParts>(inboxPartsToken).pool.rows('SELECT 1');
    await app?.app.get<InboxParts>(inboxPartsToken).pool.rows('SELECT 1');
  }

  beforeEach(async () => {
    app = await startInboxApp(database, { inbox: { intake: { ackTimeout: '30s', maxPoolWait: '1m' } } });
  });

  test('two statements of at most 200 rows are on their way, whatever waits', async () => {
    let receipts: Promise<Receipt[]> | undefined;
    await whileLocked(async () => {
      receipts = Promise.all(Array.from({ length: 900 }, (_, n) => push({ id: `k${n}` })));
      await twoAreOnTheirWay();
      // More would have been sent together with these.
      expect(await insertsAtServer()).toEqual([200, 200]);
    });
    expect(await receipts).toHaveLength(900);
    expect(await countRows()).toBe(900);
  });

  test('bodies of one statement have at most 1 MiB, and a larger one goes alone', async () => {
    let receipts: Promise<Receipt[]> | undefined;
    const kibibytes = (n: number) => ({ text: 'x'.repeat(n * 1024 - 100) });
    await whileLocked(async () => {
      receipts = Promise.all(Array.from({ length: 40 }, () => push(kibibytes(100))));
      await twoAreOnTheirWay();
      // Sizes of statements are picked from a list: 10 of these fit, and 10 is on it.
      expect(await insertsAtServer()).toEqual([10, 10]);
    });
    expect(await receipts).toHaveLength(40);
    await app?.close();
    app = await startInboxApp(database, {
      inbox: { intake: { ackTimeout: '30s', maxPoolWait: '1m', maxBodyBytes: 4 * 1_048_576 } },
    });
    let large: Promise<Receipt[]> | undefined;
    await whileLocked(async () => {
      large = Promise.all([push(kibibytes(1_500)), push(kibibytes(1_500)), push({}), push({})]);
      await twoAreOnTheirWay();
      expect(await insertsAtServer()).toEqual([1, 1]);
    });
    expect(await large).toHaveLength(4);
    expect(await countRows()).toBe(44);
  });
});

test('a line that has stood for too long is not joined: who comes is answered at once, and who waits is stored', async () => {
  const started = await startInboxApp(database, { inbox: { intake: { ackTimeout: '30s', maxPoolWait: '50ms' } } });
  app = started;
  const locker = await createConnection(database.url);
  await locker.query('LOCK TABLES inbox_message WRITE');
  const waiting: Promise<Receipt>[] = [];
  try {
    await waitUntil(
      async () => {
        const one = push({});
        const told = await Promise.race([
          one.catch((error: { refusal: string }) => error.refusal),
          new Promise<null>((resolve) => setImmediate(resolve, null)),
        ]);
        if (told === null) waiting.push(one);
        return told === 'pool-busy';
      },
      { what: 'a push is refused for the wait of others' },
    );
    // The connections are not what is waited for: two are still free.
    const { pool } = started.app.get<InboxParts>(inboxPartsToken);
    await waitUntil(() => pool.longestWaitMs() === 0, { what: 'nobody waits for a connection' });
  } finally {
    await locker.end();
  }
  expect(await Promise.all(waiting)).toHaveLength(waiting.length);
  expect(await countRows()).toBe(waiting.length);
});

describe("the application's own connections", () => {
  const small = { dataSource: { poolSize: 2 } };

  test('all taken by handlers that wait for slow SQL do not keep the door from answering', async () => {
    const lockName = database.name;
    const locker = await createConnection(database.url);
    await locker.query('SELECT GET_LOCK(?, 5)', [lockName]);
    let waiting = 0;
    try {
      app = await startInboxApp(database, {
        ...small,
        inbox: { enabled: true, lanes: 2, tick: 20, roundInterval: 50 },
        handlers: {
          async slow(_message, ctx) {
            waiting++;
            await ctx.manager.query('SELECT GET_LOCK(?, 50), RELEASE_LOCK(?)', [lockName, lockName]);
            waiting--;
          },
        },
      });
      // Entities of both lanes.
      for (let n = 0; n < 6; n++) await push({ type: 'slow', entity: `e${n}` });
      await waitUntil(() => waiting === 2, { what: 'both connections of the application wait' });
      let free = false;
      const third = app.dataSource.query('SELECT 1').then(() => {
        free = true;
      });
      const receipts = await Promise.all(Array.from({ length: 200 }, (_, n) => push({ id: `k${n}` })));
      expect(receipts).toHaveLength(200);
      expect({ waiting, free }).toEqual({ waiting: 2, free: false });
      await locker.query('SELECT RELEASE_LOCK(?)', [lockName]);
      await third;
    } finally {
      await locker.end();
    }
  });

  test('handed back with open transactions swallow no row that was acknowledged', async () => {
    app = await startInboxApp(database, small);
    const { dataSource } = app;
    const runners = [dataSource.createQueryRunner(), dataSource.createQueryRunner()];
    for (const runner of runners) await runner.query('BEGIN');
    for (const runner of runners) await runner.release();
    const receipts = await Promise.all(Array.from({ length: 20 }, (_, n) => push({ id: `k${n}` })));
    expect(receipts.every(({ status }) => status === 'stored')).toBe(true);
    // Another session sees what is committed only.
    expect(await countRows()).toBe(20);
  });
});
