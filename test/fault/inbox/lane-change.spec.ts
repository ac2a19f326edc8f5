// The number of lanes changed by rolling deploys while pushes come in: processes with the old and with the new number work
// beside each other, some stop in order and some are killed. Long form: ENTITIES=100.
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import {
  allTerminal,
  createEffectTables,
  outOfOrder,
  startInstance,
  statusCounts,
  wrongEffects,
} from '../../support/inbox-fleet.js';
import { waitUntil } from '../../support/wait-until.js';

const entities = Number(process.env.ENTITIES ?? 16);
/** Messages that may wait, so that every change finds a backlog that it has to carry along. */
const ahead = entities * 6;

let database: TestDatabase;
const started: Child[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('lane_change'));
  await createEffectTables(database);
});
afterEach(async () => {
  for (const child of started.splice(0)) await child.kill();
});
afterAll(() => database.drop());

const handled = async () => (await statusCounts(database)).success ?? 0;

async function start(name: string, lanes: number): Promise<Child> {
  const child = await startInstance(database, name, { lanes, lease: { ttl: 1_500 }, maxRetry: 20 });
  started.push(child);
  return child;
}

/** Pushes the next message of every entity, step after step, each at one of the instances that take pushes. */
class Sender {
  steps = 0;
  private at: Child | undefined;
  private ended = false;

  constructor(readonly taking: Set<Child>) {}

  async run(): Promise<void> {
    while (!this.ended) {
      await waitUntil(async () => this.steps * entities - (await handled()) <= ahead, {
        what: 'the fleet keeps up with what arrives',
        timeoutMs: 60_000,
      });
      await this.step();
    }
  }

  /** Resolves when the pushes that the instance got are answered; it gets no more. */
  async leave(child: Child): Promise<void> {
    this.taking.delete(child);
    await waitUntil(() => this.at !== child, { what: 'its pushes are answered' });
  }

  end(): void {
    this.ended = true;
  }

  private async step(): Promise<void> {
    const takers = [...this.taking];
    const taker = takers[this.steps % takers.length];
    if (!taker) throw new Error('no instance takes pushes');
    this.at = taker;
    const step = this.steps++;
    const bodies = Array.from({ length: entities }, (_, entity) => ({
      type: 'work',
      id: `e${entity}-${step}`,
      entity: `e${entity}`,
      sleepMs: 5,
      ...((entity * 7 + step) % 10 === 0 ? { failTimes: 1 } : {}),
    }));
    taker.send(JSON.stringify({ push: step, bodies }));
    await taker.line(`stored ${step}`, 30_000);
    this.at = undefined;
  }
}

test('lanes changed from 1 to 8 to 2 under traffic: nothing is lost, and every entity keeps its order', async () => {
  const fleet = await Promise.all(['a1', 'b1'].map((name) => start(name, 1)));
  const sender = new Sender(new Set(fleet));
  const sending = sender.run();
  const untilMoreAreHandled = async () => {
    const before = await handled();
    await waitUntil(async () => (await handled()) > before + entities, {
      what: 'the fleet works on',
      timeoutMs: 60_000,
    });
  };
  /** Replaces one instance after the other while pushes go on. */
  const change = async (lanes: number, signal: 'SIGTERM' | 'SIGKILL') => {
    const replacements = await Promise.all(['a', 'b'].map((name) => start(`${name}${lanes}`, lanes)));
    for (const [position, young] of replacements.entries()) {
      const old = fleet[position];
      if (!old) throw new Error('there is no instance to replace');
      sender.taking.add(young);
      fleet[position] = young;
      await untilMoreAreHandled();
      await sender.leave(old);
      old.signal(signal);
      await old.ended;
    }
    await untilMoreAreHandled();
  };
  try {
    await untilMoreAreHandled();
    await change(8, 'SIGTERM');
    await change(2, 'SIGKILL');
  } finally {
    sender.end();
    await sending;
  }
  await allTerminal(database, 60_000);
  expect(await statusCounts(database)).toEqual({ success: sender.steps * entities });
  expect(await wrongEffects(database)).toEqual([]);
  expect(await outOfOrder(database)).toEqual([]);
  const workers = await database.query<{ instance: string }>('SELECT DISTINCT instance FROM effect ORDER BY instance');
  // One lane has one consumer, so one of the two may have done nothing; eight are shared.
  const names = workers.map(({ instance }) => instance);
  expect(new Set(names.map((name) => name.slice(1)))).toEqual(new Set(['1', '2', '8']));
  expect(names).toEqual(expect.arrayContaining(['a8', 'b8']));
  const [lanes] = await database.query<{ most: number }>('SELECT MAX(lane) AS most FROM inbox_message');
  expect(lanes?.most).toBeGreaterThan(1);
}, 240_000);
