// The door is killed while it takes pushes at full speed, and its database with it. Every 2xx that a sender saw is in the
// table exactly once, under the id that it was told, and a push with many messages is there as a whole or not at all. Long form: DOOR_PUSHES=3000 DOOR_KILLS=10 DOOR_RESTARTS=3.
import { fileURLToPath } from 'node:url';
import { Acknowledged } from '../../support/acknowledged.js';
import { type Child, startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type HttpPusher, httpPusher, inParallel, type PushAnswer } from '../../support/http-pusher.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';
import { waitUntil } from '../../support/wait-until.js';

const pushes = Number(process.env.DOOR_PUSHES ?? 600);
const kills = Number(process.env.DOOR_KILLS ?? 2);
const restarts = Number(process.env.DOOR_RESTARTS ?? 1);
const door = fileURLToPath(new URL('../../support/fixtures/intake-instance.ts', import.meta.url));

let server: PrivateDatabase;
let database: TestDatabase;
let child: Child;
let pusher: HttpPusher | undefined;

beforeAll(async () => {
  server = await startPrivateDatabase('like-the-tests');
  database = await migrated(await createTestDatabase('door_kill', { serverUrl: server.url }));
});
afterEach(async () => {
  pusher?.close();
  pusher = undefined;
  await child.kill();
  expect(child.stdout).not.toContain('unhandledRejection');
  await database.query('DELETE FROM inbox_message');
});
afterAll(async () => {
  await database.drop();
  await server.remove();
});

async function open(): Promise<void> {
  child = startChild(door, { env: { DATABASE_URL: database.url, INBOX: '{"intake":{"ackTimeout":2000}}' } });
  const [, url = ''] = (await child.line('ready', 60_000)).split(' ');
  pusher?.close();
  pusher = httpPusher(url);
}

/** More than one statement holds. */
const itemsOfMany = 120;
const text = 'x'.repeat(300);
const body = (id: string) => JSON.stringify({ id, text });

test(
  `${pushes} pushes, ${kills} kills of the process and ${restarts} of the database: every 2xx is in the table exactly once`,
  async () => {
    await open();
    const acknowledged = new Acknowledged();
    const counts = { sent: 0, unanswered: 0, refused: 0 };
    const disturbances = [...Array(kills).fill('process'), ...Array(restarts).fill('database')];
    const torn: (string | undefined)[] = [];
    let killing = false;
    /** One push in thirty carries many messages. */
    const keysOf = (n: number) =>
      n % 30 === 7 ? Array.from({ length: itemsOfMany }, (_, item) => `many${n}-${item}`) : [`p${n}`];
    const messages = Array.from({ length: pushes }, (_, n) => keysOf(n).length).reduce((sum, one) => sum + one, 0);

    const pushOf = (keys: readonly string[]) =>
      keys.length === 1
        ? pusher?.push(body(keys[0] ?? ''))
        : pusher?.push(JSON.stringify({ items: keys.map((id) => ({ id, text })) }), { path: '/many' });

    /** As a sender does: the same push again until it is acknowledged; one in ten once more after that. */
    async function send(n: number): Promise<void> {
      const keys = keysOf(n);
      const id = keys[0];
      for (let wanted = n % 10 === 0 ? 2 : 1; wanted > 0; ) {
        const answer = await pushOf(keys);
        counts.sent++;
        if (acknowledged.note(keys, answer ?? null)) {
          wanted--;
          if (isMixed(answer)) torn.push(id);
        } else if (answer) {
          expect({ id, status: answer.status }).toEqual({ id, status: 503 });
          counts.refused++;
        } else {
          counts.unanswered++;
          // Nobody listens: as fast as the door comes back, not faster.
          await waitUntil(() => !killing, { what: 'the door is open again', timeoutMs: 60_000, intervalMs: 5 });
        }
      }
    }

    async function disturb(): Promise<void> {
      for (const [index, what] of shuffled(disturbances).entries()) {
        // Spread over the run, at a moment within a burst that chance picks.
        const due = ((index + 0.2 + Math.random() * 0.6) * messages) / disturbances.length;
        await waitUntil(() => acknowledged.size >= due, {
          what: 'the next kill is due',
          timeoutMs: 60_000,
          intervalMs: 1,
        });
        if (what === 'database') {
          await server.kill();
          await server.start();
          continue;
        }
        killing = true;
        await child.kill();
        await open();
        killing = false;
      }
    }

    const startedAt = performance.now();
    await Promise.all([disturb(), inParallel(pushes, 64, send)]);
    const seconds = ((performance.now() - startedAt) / 1_000).toFixed(1);
    console.log(
      `${server.flavour}: ${pushes} pushes in ${seconds} s, ${kills}+${restarts} kills: ${JSON.stringify(counts)}`,
    );

    expect(acknowledged.size).toBe(messages);
    expect(await acknowledged.wrong(database)).toEqual([]);
    expect(torn).toEqual([]);
    // A kill that met no push at work shows nothing.
    expect(counts.unanswered).toBeGreaterThanOrEqual(kills);
  },
  120_000 + (kills + restarts) * 20_000,
);

/** Some messages of a push were there and some not: an earlier attempt had stored a part of it. */
function isMixed(answer: PushAnswer | null | undefined): boolean {
  const receipts = [JSON.parse(answer?.body ?? '[]')].flat() as { duplicate: boolean }[];
  return new Set(receipts.map(({ duplicate }) => duplicate)).size > 1;
}

test('code of the application that hands connections back with open transactions takes no acknowledged row away with it', async () => {
  await open();
  child.send('leak');
  await child.line('leaked');
  const acknowledged = new Acknowledged();
  await inParallel(100, 32, async (n) => acknowledged.note(`l${n}`, (await pusher?.push(body(`l${n}`))) ?? null));
  // Whatever was left open is rolled back now.
  await child.kill();
  expect(acknowledged.size).toBe(100);
  expect(await acknowledged.wrong(database)).toEqual([]);
});

function shuffled<T>(list: readonly T[]): T[] {
  return list
    .map((value) => ({ value, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}
