// Relays that are killed while they send: nothing is lost, repetitions stay within what was in flight, and a receiver that
// drops what it has seen gets each key in order. Long form: KILLS=50 MESSAGES=5000.
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type OutboxApp, outboxCounts, startOutboxApp } from '../../support/outbox-app.js';
import {
  createReceived,
  everythingSent,
  outOfTurn,
  repetitions,
  startRelay,
  wronglySent,
} from '../../support/outbox-fleet.js';
import { waitUntil } from '../../support/wait-until.js';

const kills = Number(process.env.KILLS ?? 5);
const messages = Number(process.env.MESSAGES ?? 500);

let database: TestDatabase;
let door: OutboxApp;
const children = new Map<string, Child>();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('outbox_kill'));
  await createReceived(database);
  door = await startOutboxApp(database);
});
afterEach(async () => {
  for (const child of children.values()) await child.kill();
  children.clear();
  for (const table of ['outbox_message', 'received']) await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await door.close();
  await database.drop();
});

async function start(name: string, options: Parameters<typeof startRelay>[2]): Promise<void> {
  children.set(name, await startRelay(database, name, options));
}
const sentSoFar = async () => (await outboxCounts(database)).sent ?? 0;
/** Claimed and sent, but not marked: what a kill at this moment may repeat. */
async function inFlight(instancePid: number): Promise<number> {
  const rows = await database.query<{ n: number }>(
    "SELECT COUNT(*) AS n FROM outbox_message WHERE status = 'sending' AND claimed_by LIKE ?",
    [`%:${instancePid}:%`],
  );
  return Number(rows[0]?.n);
}

test.each([
  ['one by one', 1],
  ['ten at a time', 10],
])(
  `%s: ${kills} kills while ${messages} messages flow`,
  async (_what, batch) => {
    const concurrency = 5;
    const options = { batch, sendMs: 5, outbox: { concurrency } };
    await Promise.all(['a', 'b'].map((name) => start(name, options)));
    let enqueued = 0;
    const flow = (async () => {
      while (enqueued < messages) {
        // They flow along with what is sent, so that every kill meets some.
        await waitUntil(async () => enqueued - (await sentSoFar()) < 200, { what: 'there is room', timeoutMs: 60_000 });
        const some = Array.from({ length: Math.min(50, messages - enqueued) }, (_, n) => ({
          topic: 't',
          payload: enqueued + n,
          ...((enqueued + n) % 3 === 0 ? {} : { key: `k${(enqueued + n) % 20}` }),
        }));
        await door.send(some);
        enqueued += some.length;
      }
    })();
    let couldRepeat = 0;
    for (let kill = 0; kill < kills; kill++) {
      const name = kill % 2 === 0 ? 'a' : 'b';
      const goal = Math.min(messages, (await sentSoFar()) + 1 + Math.floor(Math.random() * 30));
      await waitUntil(async () => (await sentSoFar()) >= goal, { what: 'some progress', timeoutMs: 60_000 });
      const victim = children.get(name);
      await victim?.kill();
      couldRepeat += Math.min(await inFlight(victim?.pid ?? 0), concurrency * batch);
      await start(name, options);
    }
    await flow;
    await everythingSent(database, 90_000);
    const repeated = await repetitions(database);
    expect(await outboxCounts(database)).toEqual({ sent: messages });
    expect(await wronglySent(database)).toEqual([]);
    expect(await outOfTurn(database)).toEqual([]);
    expect(repeated).toBeLessThanOrEqual(couldRepeat);
    if (process.env.KILLS) console.info(`${kills} kills: ${repeated} arrived twice, ${couldRepeat} were in flight`);
  },
  kills * 15_000 + 120_000,
);

test('a batch whose relay is killed after it arrived is sent once more, and then no more', async () => {
  await start('a', { batch: 10, sendMs: 60_000, outbox: { sendTimeout: '2m', claimTtl: '3m', concurrency: 1 } });
  await door.send(Array.from({ length: 30 }, (_, n) => ({ topic: 't', payload: n })));
  await waitUntil(async () => (await database.query('SELECT id FROM received')).length === 10, { what: 'ten arrived' });
  await children.get('a')?.kill();
  // As time would do it.
  await database.query("UPDATE outbox_message SET claimed_until = '2001-01-01' WHERE status = 'sending'");
  await start('b', { batch: 10 });
  await everythingSent(database);
  expect(await wronglySent(database)).toEqual([]);
  expect(await repetitions(database)).toBe(10);
});
