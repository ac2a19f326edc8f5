// CASES: lease-loss, claim-locking and cas-state, on the configured server and the shared Redis.

import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { Cluster } from 'ioredis';
import { dialectOf } from '../../../src/database/index.js';
import type { InboxParts } from '../../../src/inbox/build-inbox.js';
import { inboxPartsToken } from '../../../src/inbox/tokens.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { connectTestRedis, type TestRedis, testRedisUrl } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let redis: TestRedis;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('cases_claims'));
  await database.query('CREATE TABLE effect (id BIGINT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(40))');
  redis = await connectTestRedis('cases');
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((app) => app.close()));
  for (const table of ['inbox_message', 'effect', 'mailroom_lease']) await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await redis.drop();
  await database.drop();
});

async function start(options: InboxAppOptions = {}): Promise<InboxApp> {
  const app = await startInboxApp(database, options);
  running.push(app);
  return app;
}

const effects = async () =>
  (await database.query<{ note: string }>('SELECT note FROM effect ORDER BY id')).map((row) => row.note);

describe('C3 a lease that cannot be had is told from one that was lost', () => {
  const lease = () => ({
    namespace: `${redis.prefix}c3`,
    lease: { backend: 'redis', redis: testRedisUrl(), ttl: 3_000, renew: 200 } as const,
  });

  test('while another instance holds the lane there is no event, no warning and no error; a deleted key is a warning, an event and an aborted signal', async () => {
    const entered = gate();
    const aborted = gate();
    const warnings = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
    const errors = jest.spyOn(Logger.prototype, 'error').mockImplementation(() => undefined);
    try {
      const handlers = {
        slow: (_message: unknown, { signal }: { signal: AbortSignal }) => {
          entered.open();
          return new Promise<void>((resolve) =>
            signal.addEventListener('abort', () => {
              aborted.open();
              resolve();
            }),
          );
        },
      };
      const holder = await start({ inbox: lease(), handlers });
      const other = await start({ inbox: lease(), handlers });
      await pushJson(holder.inbox, { type: 'slow' });
      const round = holder.inbox.runOnce();
      await entered.opened;
      warnings.mockClear();
      expect(await other.inbox.runOnce()).toEqual(['unavailable']);
      expect(other.events('lease-lost', 'round-failed', 'claim-lost', 'failed')).toEqual([]);
      expect([warnings.mock.calls, errors.mock.calls]).toEqual([[], []]);

      const keys = await redis.keys();
      expect(keys).toHaveLength(1);
      await redis.client.del(...keys.map((key) => redis.prefix + key));
      await aborted.opened;
      await round;
      expect(holder.events('lease-lost')).toEqual([{ name: 'lease-lost', lease: 'inbox:lane:0', reason: 'taken' }]);
      expect(warnings.mock.calls).toEqual([
        [expect.objectContaining({ event: 'lease-lost', lease: 'inbox:lane:0', reason: 'taken' })],
        [expect.objectContaining({ event: 'claim-lost', type: 'slow', reason: 'the lease of its lane was lost' })],
      ]);
      expect(errors.mock.calls).toEqual([]);
    } finally {
      warnings.mockRestore();
      errors.mockRestore();
    }
  });
});

test('C7 a lease is one key, so a cluster client is taken and no command meets two slots', async () => {
  const cluster = new Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true });
  cluster.on('error', () => undefined);
  const app = await start({
    inbox: { namespace: `${redis.prefix}c7`, lease: { backend: 'redis', redis: cluster } },
  });
  // Nobody answers at its address: consumption pauses, intake goes on.
  expect(await pushJson(app.inbox, { type: 'any' })).toMatch(/^\d+$/);
  expect(await app.inbox.runOnce()).toEqual(['unavailable']);
  cluster.disconnect();
});

test('C29 fifty pushes at the same time of each of a hundred new ids, at two instances: a hundred rows, and every sender has its answer', async () => {
  const apps = [await start(), await start()];
  const receipts = new Map<string, Set<string>>();
  let first = 0;
  for (let round = 0; round < 10; round++) {
    await Promise.all(
      Array.from({ length: 500 }, async (_, n) => {
        const id = `event-${round}-${n % 10}`;
        const app = apps[n % 2] as InboxApp;
        const receipt = await app.inbox.receive('test', { rawBody: JSON.stringify({ type: 't', id }) });
        const { id: row, duplicate } = receipt as { id: string; duplicate: boolean };
        if (!duplicate) first++;
        receipts.set(id, (receipts.get(id) ?? new Set()).add(row));
      }),
    );
  }
  expect(first).toBe(100);
  expect([...receipts.values()].map((rows) => rows.size)).toEqual(Array.from({ length: 100 }, () => 1));
  const [row] = await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message');
  expect(row?.n).toBe(100);
});

test.each(['10.5.23-MariaDB', '5.7.44', '8.0.18'])(
  'C31 a server %s, which has no SKIP LOCKED, stops the start with one message that says what to do',
  async (version) => {
    const start = startInboxApp(database, {
      prepare: (module) => {
        Object.assign(module.get<InboxParts>(inboxPartsToken), { dialect: async () => dialectOf(version) });
      },
    });
    await expect(start).rejects.toThrow(`needs MySQL 8.0.19+ or MariaDB 10.6+, this server is ${version}: upgrade it`);
  },
);

describe.each(['+FOUND_ROWS', '-FOUND_ROWS'])('C33 with %s on the connections of the application', (flag) => {
  const options = (handlers: InboxAppOptions['handlers']): InboxAppOptions => ({
    dataSource: { extra: { flags: [flag] } },
    inbox: { lease: { ttl: 3_000, renew: 100 } },
    ...(handlers && { handlers }),
  });

  test('successes are marked, also several in one commit with the next claim', async () => {
    const app = await start(
      options({ write: ({ json }, ctx) => ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [json.n]) }),
    );
    for (let n = 1; n <= 5; n++) await pushJson(app.inbox, { type: 'write', n });
    await drainInbox(app.inbox);
    expect(await effects()).toEqual(['1', '2', '3', '4', '5']);
    expect(app.events('succeeded')).toHaveLength(5);
    expect(app.events('claim-lost')).toEqual([]);
  });

  test('a heartbeat that writes what is there already does not lose the claim', async () => {
    const app = await start(
      options({
        wait: async (_message, ctx) => {
          await ctx.manager.query("INSERT INTO effect (note) VALUES ('written')");
          await waitUntil(() => app.events('lease-renewed').length >= 3, { what: 'three heartbeats' });
        },
      }),
    );
    await pushJson(app.inbox, { type: 'wait' });
    await drainInbox(app.inbox);
    expect(await effects()).toEqual(['written']);
    expect(app.events('claim-lost', 'lease-lost')).toEqual([]);
  });

  test('a race that was lost is told as lost, and what the handler wrote is rolled back', async () => {
    const app = await start(
      options({
        stolen: async (message, ctx) => {
          await ctx.manager.query("INSERT INTO effect (note) VALUES ('written')");
          // Somebody else claims it now: same values, another token.
          await database.query('UPDATE inbox_message SET claim_token = UNHEX(REPEAT("ab", 16)) WHERE id = ?', [
            message.id,
          ]);
        },
      }),
    );
    await pushJson(app.inbox, { type: 'stolen' });
    await app.inbox.runOnce();
    expect(await effects()).toEqual([]);
    expect(app.events('claim-lost')).toHaveLength(1);
    expect(app.events('succeeded')).toEqual([]);
  });
});

test('C35 a handled message that is delivered again is a duplicate, also with other white space, and keeps what it is known by', async () => {
  const app = await start({
    handlers: { once: (_m, ctx) => ctx.manager.query("INSERT INTO effect (note) VALUES ('x')") },
  });
  const identity = () =>
    database.query(
      'SELECT id, source, type, dedup_key, entity_key, lane, headers, content_type, body, received_at FROM inbox_message',
    );
  const id = await pushJson(app.inbox, { type: 'once', id: 'evt-1', entity: 'e' });
  const before = await identity();
  await drainInbox(app.inbox);
  expect(await identity()).toEqual(before);
  for (const rawBody of [
    '{"type":"once","id":"evt-1","entity":"e"}',
    '{ "type" : "once",\n "id":\t"evt-1", "entity":"e" }',
  ]) {
    expect(await app.inbox.receive('test', { rawBody })).toEqual({ id, duplicate: true, status: 'duplicate' });
  }
  await drainInbox(app.inbox);
  expect(await effects()).toEqual(['x']);
  expect(await identity()).toEqual(before);
});
