// What the door takes, refuses and stores: keys, bytes, transactions and splits, through receive() on a real server.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { Receipt } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';

describe('receive', () => {
  let database: TestDatabase;
  let app: InboxApp;

  beforeAll(async () => {
    // Whatever the database's own charset is: the tables bring theirs.
    database = await migrated(await createTestDatabase('receive', { charset: 'latin1' }));
  });
  afterAll(() => database.drop());
  beforeEach(async () => {
    await database.query('DELETE FROM inbox_message');
    app = await startInboxApp(database, {
      inbox: {
        sources: {
          raw: { type: 'raw' },
          small: { type: 'raw', maxBodyBytes: 10 },
          other: { type: 't', dedupKey: (push) => push.json.id },
          derived: { type: 't', dedupKey: (push) => push.json.order },
          many: {
            type: (_push, item) => item.type,
            split: (push) => push.json,
            dedupKey: (_push, item) => item.id,
          },
        },
      },
    });
  });
  afterEach(() => app.close());

  const receive = (source: string, body: unknown) =>
    app.inbox.receive(source, { rawBody: typeof body === 'string' ? body : JSON.stringify(body) }) as Promise<Receipt>;
  const stored = async () =>
    Number((await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n);
  const push = (id: unknown) => receive('test', { type: 't', id });

  it('stores keys that differ in case, accents or trailing blanks as different messages', async () => {
    const keys = [
      'evt',
      'EVT',
      'évt',
      'evt ',
      'evt\t',
      'e\u0301vt',
      '😀',
      '😀 ',
      'k'.repeat(255),
      'k'.repeat(256),
      'k'.repeat(257),
    ];
    for (const id of keys) expect((await push(id)).duplicate).toBe(false);
    for (const id of keys) expect((await push(id)).duplicate).toBe(true);
    expect(await stored()).toBe(keys.length);
  });

  it('keeps the keys of two sources apart', async () => {
    expect((await push('42')).duplicate).toBe(false);
    expect((await receive('other', { id: '42' })).duplicate).toBe(false);
    expect(await stored()).toBe(2);
  });

  it('refuses with 400 what gives no key, and never makes them share one', async () => {
    for (const body of [{}, { order: '' }, { order: {} }, { order: 2 ** 53 }, { order: 1.5 }, { order: true }]) {
      await expect(receive('derived', body)).rejects.toMatchObject({ statusCode: 400 });
    }
    await expect(receive('derived', 'no json')).rejects.toMatchObject({ statusCode: 400 });
    await expect(receive('derived', 'null')).rejects.toMatchObject({ statusCode: 400 });
    expect(await stored()).toBe(0);
  });

  it('stores bytes as they came', async () => {
    const bodies = [
      Buffer.alloc(0),
      Buffer.from([0xff, 0xfe, 0x00, 0x80, 0x27, 0x5c, 0x0a]),
      Buffer.from('\ufeff{"a":1}'),
      Buffer.from('{"id":7088992364139642881,"amt":0.1,"x":1e400,"x":2}'),
      Buffer.from('😀 \\ \' " \0'),
      Buffer.alloc(1_048_576, 0x27),
    ];
    for (const rawBody of bodies) {
      const { id } = (await app.inbox.receive('raw', { rawBody })) as Receipt;
      const [row] = await database.query<{ body: Buffer }>('SELECT body FROM inbox_message WHERE id = ?', [id]);
      expect(row?.body.equals(rawBody)).toBe(true);
    }
  });

  it('takes a body of exactly the limit and answers 413 for one byte more', async () => {
    expect((await receive('small', '1234567890')).status).toBe('stored');
    await expect(receive('small', '12345678901')).rejects.toMatchObject({ statusCode: 413 });
  });

  it('joins the transaction of a manager: a rollback takes the message away', async () => {
    const rawBody = JSON.stringify({ type: 't', id: 'joined' });
    const back = new Error('back');
    const rolledBack = app.dataSource.transaction(async (manager) => {
      expect(await app.inbox.receive('test', { rawBody }, { manager })).toMatchObject({ duplicate: false });
      expect(await app.inbox.receive('test', { rawBody }, { manager })).toMatchObject({ duplicate: true });
      throw back;
    });
    await expect(rolledBack).rejects.toBe(back);
    expect(await stored()).toBe(0);
    await app.dataSource.transaction((manager) => app.inbox.receive('test', { rawBody }, { manager }));
    expect(await stored()).toBe(1);
  });

  it('stores text unchanged through a connection with another charset and without backslash escapes', async () => {
    await app.dataSource.transaction(async (manager) => {
      await manager.query('SET NAMES latin1');
      await manager.query("SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'");
      const headers = { 'x-request-id': "\\' 😀 \\" };
      await app.inbox.receive('test', { rawBody: '{"type":"t","id":"😀\'"}', headers }, { manager });
    });
    const [row] = await database.query<{ headers: string; body: Buffer }>(
      'SELECT CAST(headers AS CHAR) AS headers, body FROM inbox_message',
    );
    expect(JSON.parse(row?.headers ?? '')).toEqual({ 'x-request-id': "\\' 😀 \\" });
    expect(row?.body.toString()).toBe('{"type":"t","id":"😀\'"}');
  });

  it('stores all items of a push or none, with ids in their order and duplicates told per item', async () => {
    const items = Array.from({ length: 500 }, (_, n) => ({ type: 't', id: `s${n}` }));
    const first = (await receive('many', items)) as unknown as Receipt[];
    expect(first.map(({ id }) => BigInt(id as string))).toEqual(
      [...first].map(({ id }) => BigInt(id as string)).sort((a, b) => (a < b ? -1 : 1)),
    );
    const mixed = (await receive('many', [
      { type: 't', id: 'new' },
      items[7],
      { type: 't', id: 'new' },
    ])) as unknown as Receipt[];
    expect(mixed.map(({ duplicate }) => duplicate)).toEqual([false, true, true]);
    expect([mixed[1]?.id, mixed[2]?.id]).toEqual([first[7]?.id, mixed[0]?.id]);
    await expect(
      receive('many', [
        { type: 't', id: 'x1' },
        { type: 'no type', id: 'x2' },
      ]),
    ).rejects.toMatchObject({
      statusCode: 400,
    });
    expect(await stored()).toBe(501);
  });

  it('lets two pushes that hold the same keys in opposite order both succeed', async () => {
    for (let round = 0; round < 5; round++) {
      const items = Array.from({ length: 150 }, (_, n) => ({ type: 't', id: `o${round}-${n}` }));
      const [one, two] = (await Promise.all([
        receive('many', items),
        receive('many', [...items].reverse()),
      ])) as unknown as Receipt[][];
      two?.reverse();
      expect(one?.map(({ id }) => id)).toEqual(two?.map(({ id }) => id));
    }
    expect(await stored()).toBe(750);
  });
});
