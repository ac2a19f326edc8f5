// Business transactions of which a third ends badly, by ROLLBACK, in a savepoint, by a deadlock that the server decides, and
// by a killed connection, while a relay sends: what is sent is what was committed. Long form: TRANSACTIONS=5000.
import type { EntityManager } from 'typeorm';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { deadlockTables, loseDeadlock } from '../../support/lose-deadlock.js';
import { notingTransport, type OutboxApp, outboxCounts, startOutboxApp } from '../../support/outbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

const transactions = Number(process.env.TRANSACTIONS ?? 600);
const atOnce = 8;

let database: TestDatabase;
let app: OutboxApp;
let transport = notingTransport();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('atomicity'));
  await database.query('CREATE TABLE business (message_id VARCHAR(64) PRIMARY KEY) ENGINE=InnoDB');
  for (const sql of deadlockTables) await database.query(sql);
  transport = notingTransport(undefined, 50);
  app = await startOutboxApp(database, {
    outbox: { enabled: true, pollInterval: 50, transports: { out: transport } },
    dataSource: { poolSize: 2 * atOnce },
  });
});
afterAll(async () => {
  await app.close();
  await database.drop();
});

type Fate = 'commit' | 'rollback' | 'savepoint' | 'deadlock' | 'killed';

/** 70 % commit; of the rest each ends in its own way. */
function fateOf(n: number): Fate {
  const bad: readonly Fate[] = ['rollback', 'savepoint', 'deadlock'];
  const at = n % 10;
  if (n % 50 === 9) return 'killed';
  return bad[at - 7] ?? 'commit';
}

/** A message and its business row, in this order: after a swallowed deadlock TypeORM would let the row commit by itself. */
async function write(manager: EntityManager, id: string): Promise<void> {
  await app.outbox.enqueue(manager, { topic: 't', id, key: `k${id.length}`, payload: { id } });
  await manager.query('INSERT INTO business (message_id) VALUES (?)', [id]);
}

async function transaction(n: number, seen: Map<Fate | 'swallowed', number>): Promise<void> {
  const fate = fateOf(n);
  const note = (what: Fate | 'swallowed') => seen.set(what, (seen.get(what) ?? 0) + 1);
  try {
    await app.dataSource.transaction(async (manager) => {
      await write(manager, `m${n}`);
      if (fate === 'rollback') throw new Error('changed my mind');
      if (fate === 'savepoint') {
        await manager
          .transaction(async (inner) => {
            await write(inner, `m${n}-inner`);
            throw new Error('only this');
          })
          .catch(() => note('savepoint'));
      }
      if (fate === 'killed') {
        const [{ id } = { id: 0 }] = (await manager.query('SELECT CONNECTION_ID() AS id')) as { id: number }[];
        await database.query('KILL ?', [id]);
      }
      if (fate === 'deadlock') await deadlock(manager, n, note);
      if (fate !== 'commit') await write(manager, `m${n}-second`);
    });
    if (fate === 'commit') note('commit');
  } catch (error) {
    if (fate === 'commit') throw error;
    note(fate);
  }
}

/** Every other time the error is swallowed, and the transaction goes on. */
async function deadlock(manager: EntityManager, n: number, note: (what: 'swallowed') => void): Promise<void> {
  try {
    await loseDeadlock(app.dataSource, manager, { first: 2 * n, second: 2 * n + 1 });
  } catch (error) {
    expect(error).toMatchObject({ errno: 1213 });
    if (n % 20 < 10) throw error;
    note('swallowed');
  }
}

test(
  `${transactions} transactions: the sent set is the committed set`,
  async () => {
    const seen = new Map<Fate | 'swallowed', number>();
    let next = 0;
    await Promise.all(
      Array.from({ length: atOnce }, async () => {
        while (next < transactions) await transaction(next++, seen);
      }),
    );
    const committed = await database.query<{ message_id: string }>('SELECT message_id FROM business');
    await waitUntil(async () => (await outboxCounts(database)).sent === committed.length, {
      what: 'everything committed is sent',
      timeoutMs: 60_000,
    });
    const ids = committed.map(({ message_id }) => message_id).sort();
    expect(await outboxCounts(database)).toEqual({ sent: ids.length });
    expect(transport.ids().sort()).toEqual(ids);
    // All fates were met, so that the test says something.
    for (const fate of ['rollback', 'savepoint', 'deadlock', 'killed', 'swallowed'] as const)
      expect([fate, (seen.get(fate) ?? 0) > 0]).toEqual([fate, true]);
    if (process.env.TRANSACTIONS)
      console.info(`ends seen: ${JSON.stringify(Object.fromEntries(seen))}; sent ${ids.length}`);
  },
  transactions * 40 + 120_000,
);
