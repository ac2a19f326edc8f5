// Ten times more pushes than the database can take, for a while: the process stays, its memory is bounded, every sender is
// answered in time, what got a 200 is in the table, and the door still takes most of what it can.
// Long form: FLOOD_SECONDS=20.
import { fileURLToPath } from 'node:url';
import { type Child, startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { flood } from '../../support/flood.js';
import { httpPusher, inParallel } from '../../support/http-pusher.js';

/** What an operator sets for such a database: what it stores in about a second. */
const places = 32;
const seconds = Number(process.env.FLOOD_SECONDS ?? 6);
const rowMs = Number(process.env.FLOOD_ROW_MS ?? 40);
const script = fileURLToPath(new URL('../../support/fixtures/intake-instance.ts', import.meta.url));

let database: TestDatabase;
let door: Child;
let url: string;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('overload'));
  // What makes a database slow is not the point: that each row costs it something is.
  await database.query(`CREATE TRIGGER slow BEFORE INSERT ON inbox_message FOR EACH ROW DO SLEEP(${rowMs / 1000})`);
  door = startChild(script, {
    env: { DATABASE_URL: database.url, INBOX: JSON.stringify({ intake: { maxInFlight: places } }) },
  });
  url = (await door.line('ready', 60_000)).split(' ')[1] ?? '';
});
afterAll(async () => {
  await door.kill();
  await database.drop();
});

/** Its resident memory, and the longest time that it took for an answer. */
async function watch(): Promise<{ memory: number; slowestMs: number }> {
  door.send('watch');
  const [, memory, slowestMs] = (await door.line('watch')).split(' ').map(Number);
  return { memory: memory ?? 0, slowestMs: slowestMs ?? 0 };
}

/** Rows per second that the door stores for as many senders as it has places, which wait for their answers. */
async function sustainableRate(): Promise<number> {
  const pusher = httpPusher(url, places);
  let stored = 0;
  const startedAt = performance.now();
  await inParallel(places, places, async (n) => {
    for (let k = 0; performance.now() - startedAt < 3_000; k++) {
      if ((await pusher.push(JSON.stringify({ id: `s${n}-${k}` })))?.status === 200) stored++;
    }
  });
  pusher.close();
  return stored / ((performance.now() - startedAt) / 1000);
}

test(
  `ten times the sustainable rate for ${seconds} s`,
  async () => {
    const sustainable = await sustainableRate();
    const { memory: before } = await watch();
    let peak = 0;
    let over = false;
    const watching = (async () => {
      while (!over) peak = Math.max(peak, (await watch()).memory);
    })();
    const result = await flood({ url, ratePerSecond: sustainable * 10, seconds }).finally(() => {
      over = true;
    });
    await watching;
    const { acknowledged, ...figures } = result;
    const { slowestMs } = await watch();
    const mebibytes = (bytes: number) => Math.round(bytes / 1_048_576);
    console.log(
      `${database.flavour}: sustainable ${Math.round(sustainable)}/s, goodput ${Math.round(acknowledged.length / seconds)}/s, memory ${mebibytes(before)} -> ${mebibytes(peak)} MiB, slowest answer ${slowestMs} ms, for its senders ${JSON.stringify(figures)}`,
    );
    const rows = await database.query<{ id: string; dedup_key: Buffer }>(
      'SELECT CAST(m.id AS CHAR) AS id, m.dedup_key FROM inbox_message m',
    );
    const stored = new Map(rows.map(({ id, dedup_key }) => [dedup_key.toString(), id]));
    expect(acknowledged.filter(([key, id]) => stored.get(key) !== id)).toEqual([]);
    expect(Object.keys(figures.statuses).toSorted()).toEqual(['200', '503']);
    expect(door.stdout).not.toContain('unhandledRejection');
    // Turning senders away must not be what the door is busy with.
    expect(acknowledged.length / seconds).toBeGreaterThan(sustainable / 4);
    expect(mebibytes(peak - before)).toBeLessThan(256);
    // In the long form only: a machine that is busy with other things makes the door late.
    if (seconds >= 20) expect(slowestMs).toBeLessThan(2_500);
  },
  120_000 + seconds * 5_000,
);
