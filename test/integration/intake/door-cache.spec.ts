// Caches in front of the unique key, on a real Redis that is also frozen, killed and emptied: whatever they know, one
// message is one row, and every sender gets the id of the first.
import { randomUUID } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import type { IdempotencyOptions, InboxOptions, Receipt } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import type { PrivateServer } from '../../support/private-server.js';
import { connectTestRedis, startPrivateRedis, type TestRedis } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let redis: TestRedis;
let apps: InboxApp[];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('door_cache'));
  redis = await connectTestRedis('door_cache');
});
afterAll(async () => {
  await redis.drop();
  await database.drop();
});
beforeEach(async () => {
  apps = [];
  await database.query('DELETE FROM inbox_message');
  for (const key of await redis.keys()) await redis.client.del(redis.prefix + key);
});
afterEach(async () => {
  for (const app of apps) await app.close();
});

async function start(idempotency: IdempotencyOptions, inbox: Partial<InboxOptions> = {}): Promise<InboxApp> {
  // The namespace is all of the prefix but its colon.
  const namespace = redis.prefix.slice(0, -1);
  const app = await startInboxApp(database, { inbox: { namespace, idempotency, ...inbox } });
  apps.push(app);
  return app;
}

const lru: IdempotencyOptions = { cache: 'lru', door: true };
const both = (url = redis.url): IdempotencyOptions => ({ cache: 'lru+redis', door: true, redis: url });
/** Resolves when the instance is connected, so that a test does not pass because nothing was asked. Leaves no trace. */
async function connected(app: InboxApp): Promise<InboxApp> {
  await waitUntil(
    async () => {
      await app.inbox.receive('test', { rawBody: JSON.stringify({ type: 't', id: randomUUID() }) });
      return (await redis.keys()).length > 0;
    },
    { what: 'the instance remembers in Redis' },
  );
  await database.query('DELETE FROM inbox_message');
  for (const key of await redis.keys()) await redis.client.del(redis.prefix + key);
  return app;
}
const push = (app: InboxApp, id: string) =>
  app.inbox.receive('test', { rawBody: JSON.stringify({ type: 't', id }) }) as Promise<Receipt>;
const rows = async () => Number((await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n);
const parts = (app: InboxApp) => app.app.get<InboxParts>(inboxPartsToken);

/** Of the copies of one message: one row, one id, exactly one that was first. */
function oneMessage(receipts: readonly Receipt[]): void {
  expect(new Set(receipts.map(({ id }) => id)).size).toBe(1);
  expect(receipts.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
}

it('is off unless it was chosen: the table alone answers', async () => {
  const app = await start({});
  expect(parts(app).known).toBeNull();
  await push(app, 'k');
  await database.query('DELETE FROM inbox_message');
  expect((await push(app, 'k')).duplicate).toBe(false);
});

describe.each([
  ['lru', () => lru],
  ['lru+redis', () => both()],
] as const)('with %s', (_name, options) => {
  it('copies at the same time, in one batch and on two instances, are one row with one id', async () => {
    const instances = [await start(options()), await start(options())];
    for (let round = 0; round < 5; round++) {
      const receipts = await Promise.all(
        Array.from({ length: 100 }, (_, n) => push(instances[n % 2] as InboxApp, `r${round}-k${n % 10}`)),
      );
      for (let key = 0; key < 10; key++) oneMessage(receipts.filter((_, n) => n % 10 === key));
    }
    expect(await rows()).toBe(50);
  });

  it('answers a duplicate without asking the table, which is why it is a choice', async () => {
    const app = await start(options());
    const first = await push(app, 'k');
    await database.query('DELETE FROM inbox_message');
    expect(await push(app, 'k')).toEqual({ id: first.id, duplicate: true, status: 'duplicate' });
    expect(await rows()).toBe(0);
  });

  it('knows nothing that is not committed', async () => {
    const app = await start(options(), { intake: { ackTimeout: 300, maxPoolWait: '1m' } });
    await database.query('LOCK TABLES inbox_message WRITE');
    await expect(push(app, 'late')).rejects.toMatchObject({ statusCode: 503 });
    expect(await redis.keys()).toEqual([]);
    await expect(push(app, 'late')).rejects.toMatchObject({ statusCode: 503 });
    await database.query('UNLOCK TABLES');
    // The row was sent and appears after its sender was told to push again.
    await waitUntil(async () => (await rows()) === 1, { what: 'the row appears' });
    expect((await push(app, 'late')).duplicate).toBe(true);
    expect(await rows()).toBe(1);
  });

  it('forgets nothing into it: a push that was withdrawn is stored when it comes again', async () => {
    const app = await start(options(), { controlPool: 2, intake: { ackTimeout: 200, maxPoolWait: '1m' } });
    const held = gate();
    const holders = [1, 2].map(() => parts(app).pool.withConnection(() => held.opened));
    await expect(push(app, 'k')).rejects.toMatchObject({ statusCode: 503 });
    held.open();
    await Promise.all(holders);
    expect((await push(app, 'k')).duplicate).toBe(false);
    expect(await rows()).toBe(1);
  });

  it('keeps keys apart that differ in case, accents or trailing blanks, and keys that are hashed', async () => {
    const keys = [
      'evt',
      'EVT',
      'évt',
      'e\u0301vt',
      'evt ',
      'evt\t',
      '😀',
      '😀 ',
      'k'.repeat(255),
      'k'.repeat(256),
      'k'.repeat(257),
    ];
    const app = await start(options());
    const ids: (string | null)[] = [];
    for (const key of keys) {
      const { id, duplicate } = await push(app, key);
      expect(duplicate).toBe(false);
      ids.push(id);
    }
    await database.query('DELETE FROM inbox_message');
    for (const [index, key] of keys.entries()) {
      expect(await push(app, key)).toMatchObject({ id: ids[index], duplicate: true });
    }
    // The same key of another source is another message.
    expect(new Set(ids).size).toBe(keys.length);
  });

  it('keeps sources apart', async () => {
    const app = await start(options(), { sources: { other: { type: 't', dedupKey: (push) => push.json.id } } });
    await push(app, '42');
    const other = (await app.inbox.receive('other', { rawBody: '{"id":"42"}' })) as Receipt;
    expect(other.duplicate).toBe(false);
    expect(await rows()).toBe(2);
  });
});

describe('Redis as a tier', () => {
  it('tells another instance, under names that do not show the key', async () => {
    const [a, b] = [await connected(await start(both())), await connected(await start(both()))];
    const first = await push(a, 'secret-order-1');
    await waitUntil(async () => (await redis.keys()).length === 1, { what: 'the key is in Redis' });
    await database.query('DELETE FROM inbox_message');
    expect(await push(b, 'secret-order-1')).toEqual({ id: first.id, duplicate: true, status: 'duplicate' });
    const keys = await redis.keys();
    expect(keys.every((key) => /^known:test:[\w-]{43}$/.test(key))).toBe(true);
    expect(await redis.client.pttl(`${redis.prefix}${keys[0]}`)).toBeLessThanOrEqual(1_800_000);
  });

  it('a value under a key that is no id is ignored', async () => {
    const [a, b] = [await connected(await start(both())), await connected(await start(both()))];
    const { id } = await push(a, 'k');
    await waitUntil(async () => (await redis.keys()).length === 1, { what: 'the key is in Redis' });
    for (const key of await redis.keys()) await redis.client.set(redis.prefix + key, 'rubbish');
    expect(await push(b, 'k')).toMatchObject({ id, duplicate: true });
    expect(await rows()).toBe(1);
  });

  describe('that is frozen, killed or emptied', () => {
    let server: PrivateServer;
    beforeAll(async () => {
      server = await startPrivateRedis();
    });
    afterAll(() => server.remove());

    async function twoInstances(): Promise<[InboxApp, InboxApp]> {
      return [await start(both(server.url)), await start(both(server.url))];
    }

    async function copies(instances: readonly InboxApp[], name: string): Promise<void> {
      const receipts = await Promise.all(
        Array.from({ length: 40 }, (_, n) => push(instances[n % 2] as InboxApp, `${name}${n % 4}`)),
      );
      for (let key = 0; key < 4; key++) oneMessage(receipts.filter((_, n) => n % 4 === key));
      for (let key = 0; key < 4; key++) {
        for (const instance of instances) {
          expect(await push(instance, `${name}${key}`)).toMatchObject({ id: receipts[key]?.id, duplicate: true });
        }
      }
    }

    it('costs nobody a message or a second row', async () => {
      const instances = await twoInstances();
      await copies(instances, 'before');
      server.pause();
      await copies(instances, 'frozen');
      server.resume();
      await copies(instances, 'after');
      await server.kill();
      await copies(instances, 'killed');
      await server.start();
      await copies(instances, 'back');
      expect(await rows()).toBe(20);
    });
  });
});
