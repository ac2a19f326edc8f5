// Many pushes at once through one intake: what shares a statement still gets its own, true result.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, jest } from '@jest/globals';
import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import type { Receipt } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

describe('group commit', () => {
  let database: TestDatabase;
  let app: InboxApp;

  beforeAll(async () => {
    database = await migrated(await createTestDatabase('group_commit'));
  });
  afterAll(() => database.drop());
  beforeEach(async () => {
    await database.query('DELETE FROM inbox_message');
    app = await startInboxApp(database, { inbox: { intake: { ackTimeout: '5s', maxPoolWait: '1m' } } });
  });
  afterEach(() => app.close());

  const push = (body: Readonly<Record<string, unknown>>) =>
    app.inbox.receive('test', { rawBody: JSON.stringify({ type: 't', ...body }) }) as Promise<Receipt>;
  const rows = () =>
    database.query<{ id: string; dedup_key: Buffer | null; body: Buffer }>(
      'SELECT CAST(id AS CHAR) AS id, dedup_key, body FROM inbox_message ORDER BY id',
    );
  const parts = () => app.app.get<InboxParts>(inboxPartsToken);

  it('gives each of 1,000 concurrent pushes the id of its own row', async () => {
    const receipts = await Promise.all(Array.from({ length: 1_000 }, (_, n) => push({ id: `k${n}`, n })));
    const byId = new Map((await rows()).map(({ id, body }) => [id, JSON.parse(body.toString()).n]));
    expect(receipts.map(({ id }) => byId.get(id as string))).toEqual(receipts.map((_, n) => n));
    expect(receipts.every(({ duplicate, status }) => !duplicate && status === 'stored')).toBe(true);
  });

  it('needs far fewer statements than pushes', async () => {
    const inserts = async () =>
      Number((await database.query<{ Value: string }>("SHOW GLOBAL STATUS LIKE 'Com_insert'"))[0]?.Value);
    const before = await inserts();
    await Promise.all(Array.from({ length: 400 }, () => push({})));
    // The server is shared with other tests, so this is an upper limit of what it counted.
    expect((await inserts()) - before).toBeLessThan(200);
  });

  it('sends what came in the same turn of the event loop together', async () => {
    await push({});
    const lent = jest.spyOn(parts().pool, 'withConnection');
    // As sockets that are readable at the same time: a callback each, one after the other, in one turn.
    const arrivals = Array.from({ length: 32 }, () => new Promise<void>((resolve) => setImmediate(resolve)));
    await Promise.all(arrivals.map((arrival) => arrival.then(() => push({}))));
    expect(lent).toHaveBeenCalledTimes(1);
    lent.mockRestore();
  });

  it('stores one row for copies at the same time, and tells exactly one sender that it was first', async () => {
    const receipts = await Promise.all(Array.from({ length: 300 }, (_, n) => push({ id: `k${n % 10}` })));
    expect(await rows()).toHaveLength(10);
    for (let key = 0; key < 10; key++) {
      const copies = receipts.filter((_, n) => n % 10 === key);
      expect(new Set(copies.map(({ id }) => id)).size).toBe(1);
      expect(copies.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    }
  });

  it('does so for two instances that race', async () => {
    const other = await startInboxApp(database);
    try {
      for (let round = 0; round < 5; round++) {
        const keys = Array.from({ length: 40 }, (_, n) => `r${round}-${n}`);
        const receive = (inbox: InboxApp['inbox'], id: string) =>
          inbox.receive('test', { rawBody: JSON.stringify({ type: 't', id }) }) as Promise<Receipt>;
        const [mine, theirs] = await Promise.all([
          Promise.all(keys.map((key) => receive(app.inbox, key))),
          Promise.all([...keys].reverse().map((key) => receive(other.inbox, key))),
        ]);
        theirs.reverse();
        for (const [n, { id, duplicate }] of mine.entries()) {
          expect(theirs[n]?.id).toBe(id);
          expect([duplicate, theirs[n]?.duplicate].filter((copy) => copy === false)).toHaveLength(1);
        }
      }
      expect(await rows()).toHaveLength(200);
    } finally {
      await other.close();
    }
  });

  it('answers duplicates among new messages with the first id', async () => {
    const first = await Promise.all(Array.from({ length: 50 }, (_, n) => push({ id: `k${n}` })));
    const again = await Promise.all(Array.from({ length: 250 }, (_, n) => push({ id: `k${n}` })));
    expect(again.slice(0, 50)).toEqual(first.map(({ id }) => ({ id, duplicate: true, status: 'duplicate' })));
    expect(again.slice(50).every(({ duplicate }) => !duplicate)).toBe(true);
    expect(new Set(again.map(({ id }) => id)).size).toBe(250);
    expect(await rows()).toHaveLength(250);
  });

  it('lets one row that the server refuses fail alone', async () => {
    await database.query("ALTER TABLE inbox_message ADD CONSTRAINT no_nines CHECK (dedup_key <> X'6B3939')");
    try {
      const results = await Promise.allSettled(Array.from({ length: 200 }, (_, n) => push({ id: `k${n}` })));
      expect(results.flatMap(({ status }, n) => (status === 'rejected' ? [n] : []))).toEqual([99]);
      expect(await rows()).toHaveLength(199);
    } finally {
      await database.query('ALTER TABLE inbox_message DROP CONSTRAINT no_nines');
    }
  });

  it('lets others pass when a key is held by an open transaction, and refuses that key with a 503', async () => {
    const runner = app.dataSource.createQueryRunner();
    await runner.startTransaction();
    try {
      await app.inbox.receive('test', { rawBody: '{"type":"t","id":"h5"}' }, { manager: runner.manager });
      const startedAt = performance.now();
      const results = await Promise.allSettled(Array.from({ length: 100 }, (_, n) => push({ id: `h${n}` })));
      expect(performance.now() - startedAt).toBeLessThan(3_000);
      expect(
        results.flatMap((result, n) => (result.status === 'rejected' ? [[n, result.reason.statusCode]] : [])),
      ).toEqual([[5, 503]]);
      await runner.commitTransaction();
      expect((await push({ id: 'h5' })).duplicate).toBe(true);
      expect(await rows()).toHaveLength(100);
    } finally {
      await runner.release();
    }
  });

  it('does not acknowledge a row that a connection with an open transaction swallowed', async () => {
    const { pool, options } = parts();
    await Promise.all(
      Array.from({ length: options.controlPool }, () =>
        pool.withConnection(async (connection) => void (await connection.query('START TRANSACTION'))),
      ),
    );
    const results = await Promise.allSettled(Array.from({ length: 20 }, (_, n) => push({ id: `p${n}` })));
    const acknowledged = results.flatMap((one) => (one.status === 'fulfilled' ? [one.value.id] : []));
    const stored = new Set((await rows()).map(({ id }) => id));
    expect(acknowledged.filter((id) => !stored.has(id as string))).toEqual([]);
    expect(results.some(({ status }) => status === 'rejected')).toBe(true);
    const receipt = await waitUntil(() => push({ id: 'p0' }), { what: 'the poisoned connections are gone' });
    expect((await rows()).map(({ id }) => id)).toContain(receipt.id);
  });

  it('withdraws what was not sent when its sender was answered', async () => {
    const { pool, options } = parts();
    let release = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const holders = Array.from({ length: options.controlPool }, () => pool.withConnection(() => held));
    await expect(push({ id: 'late' })).rejects.toMatchObject({ statusCode: 503, retryAfterMs: expect.any(Number) });
    release();
    await Promise.all(holders);
    expect((await push({ id: 'late' })).duplicate).toBe(false);
    expect(await rows()).toHaveLength(1);
  });

  it('gives true ids where ids do not follow each other', async () => {
    const { pool, options } = parts();
    await Promise.all(
      Array.from({ length: options.controlPool }, () =>
        pool.withConnection(
          async (connection) => void (await connection.query('SET SESSION auto_increment_increment = 7')),
        ),
      ),
    );
    const receipts = await Promise.all(Array.from({ length: 100 }, (_, n) => push({ n })));
    const byId = new Map((await rows()).map(({ id, body }) => [id, JSON.parse(body.toString()).n]));
    expect(receipts.map(({ id }) => byId.get(id as string))).toEqual(receipts.map((_, n) => n));
  });
});
