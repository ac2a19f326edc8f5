// Order per entity in a fleet of processes, with failures and a kill. Long form: ENTITIES=200 STEPS=50.
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import {
  allTerminal,
  createEffectTables,
  outOfOrder,
  startInstance,
  statusCounts,
  storeMessages,
  wrongEffects,
} from '../../support/inbox-fleet.js';
import { waitUntil } from '../../support/wait-until.js';

const entities = Number(process.env.ENTITIES ?? 40);
const steps = Number(process.env.STEPS ?? 15);
const total = entities * steps;
const lanes = 8;
const ttl = 1_500;
/** Messages that may wait, so that arrivals and work go on side by side to the end. */
const ahead = Math.max(entities * 4, total / 4);

let database: TestDatabase;
const children: Child[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('order'));
  await createEffectTables(database);
});
afterEach(async () => {
  for (const child of children.splice(0)) await child.kill();
});
afterAll(() => database.drop());

const handled = async () => (await statusCounts(database)).success ?? 0;

/** One in ten, spread over entities and steps. */
const failsOnce = (entity: number, step: number) => (entity * 7 + step) % 10 === 0;
let planned = 0;

/** Every entity's next message in turn, as long as the fleet keeps up. */
async function arrive(): Promise<void> {
  for (let step = 0; step < steps; step++) {
    await waitUntil(async () => entities * step - (await handled()) <= ahead, {
      what: 'the fleet keeps up with what arrives',
      timeoutMs: 100_000,
      intervalMs: 50,
    });
    await storeMessages(
      database,
      Array.from({ length: entities }, (_, entity) => {
        if (!failsOnce(entity, step)) return { entity: `e${entity}` };
        planned++;
        return { entity: `e${entity}`, failTimes: 1 };
      }),
      lanes,
    );
  }
}

test(`${entities} entities with ${steps} messages each, a tenth of which fail at first, ${lanes} lanes and three instances, one of them killed: each entity is applied in the order of arrival`, async () => {
  const options = { lanes, lease: { ttl }, maxRetry: 20 };
  children.push(...(await Promise.all(['a', 'b', 'c'].map((name) => startInstance(database, name, options)))));
  const arriving = arrive();
  const [victim] = children;
  const byVictim = async () => (await database.query("SELECT id FROM effect WHERE instance = 'a' LIMIT 1")).length > 0;
  try {
    await waitUntil(async () => (await byVictim()) && (await handled()) >= total / 3, {
      what: 'the one that is killed has its part of the work',
      timeoutMs: 100_000,
    });
    expect(await handled()).toBeLessThan(total);
    await victim?.kill();
  } finally {
    await arriving;
  }
  await allTerminal(database, 200_000);
  expect(await statusCounts(database)).toEqual({ success: total });
  expect(await wrongEffects(database)).toEqual([]);
  expect(await outOfOrder(database)).toEqual([]);
  const [retried] = await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message WHERE attempts > 1');
  expect(retried?.n).toBeGreaterThanOrEqual(planned);
  const workers = await database.query<{ instance: string }>('SELECT DISTINCT instance FROM effect ORDER BY instance');
  expect(workers.map(({ instance }) => instance)).toEqual(['a', 'b', 'c']);
}, 300_000);
