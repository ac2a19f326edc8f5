// Redis stands still: the door does not notice. Pushes at a fixed rate, with Redis well and frozen in turns; what is compared
// is the same door in the same minute. On a private Redis.
import { fileURLToPath } from 'node:url';
import { type Child, startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { flood } from '../../support/flood.js';
import type { PrivateServer } from '../../support/private-server.js';
import { startPrivateRedis } from '../../support/redis.js';

const turns = Number(process.env.FROZEN_TURNS ?? 2);
const seconds = Number(process.env.FROZEN_SECONDS ?? 2);
const script = fileURLToPath(new URL('../../support/fixtures/intake-instance.ts', import.meta.url));

let database: TestDatabase;
let redis: PrivateServer;
let door: Child;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('redis_frozen'));
  redis = await startPrivateRedis();
});
afterAll(async () => {
  await door?.kill();
  await redis.remove();
  await database.drop();
});

test('with Redis frozen every push is stored, and about as fast', async () => {
  const inbox = { enabled: true, roundInterval: 200, lease: { backend: 'redis', redis: redis.url, ttl: 6_000 } };
  door = startChild(script, { env: { DATABASE_URL: database.url, INBOX: JSON.stringify(inbox) } });
  const url = (await door.line('ready', 60_000)).split(' ')[1] ?? '';
  const run = async (name: string) => {
    const result = await flood({ url, ratePerSecond: 200, seconds, prefix: name });
    expect(Object.keys(result.statuses)).toEqual(['200']);
    return result;
  };
  await run('warm-up');
  const well: number[] = [];
  const frozen: number[] = [];
  for (let turn = 0; turn < turns; turn++) {
    well.push((await run(`well${turn}-`)).p99Ms);
    redis.pause();
    try {
      frozen.push((await run(`frozen${turn}-`)).p99Ms);
    } finally {
      redis.resume();
    }
  }
  console.log(`${database.flavour}: p99 in ms with Redis well ${well.join(', ')}, frozen ${frozen.join(', ')}`);
  // The best of each: what else runs on the machine is not what is compared. A door that waited for Redis would add one of
  // its timeouts, 700 ms or more, to each push.
  expect(Math.min(...frozen)).toBeLessThan(2 * Math.min(...well) + 200);
  expect(door.stdout).not.toContain('unhandledRejection');
}, 120_000);
