// What a message may hold: identity, payload, delay, headers, and what is refused with the name of its field.
import type { DataSource } from 'typeorm';
import {
  InboxHandler,
  InboxModule,
  InboxService,
  InvalidMessageError,
  isDuplicateKey,
  OutboxMessage,
  type OutgoingMessage,
} from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { notingTransport, type OutboxApp, type OutboxAppOptions, startOutboxApp } from '../../support/outbox-app.js';

let database: TestDatabase;
let app: OutboxApp;
let transport = notingTransport();

beforeAll(async () => {
  database = await migrated(await createTestDatabase('enqueue_message'));
});
afterEach(async () => {
  await app?.close();
  for (const table of ['outbox_message', 'inbox_message']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function start(options: OutboxAppOptions = {}): Promise<void> {
  transport = notingTransport(undefined, 100);
  app = await startOutboxApp(database, { ...options, outbox: { transports: { out: transport }, ...options.outbox } });
}

/** Enqueues, sends, and returns what the transport was handed. */
async function arrived(messages: OutgoingMessage | OutgoingMessage[]): Promise<OutboxMessage[]> {
  await app.send(messages);
  await app.outbox.runOnce();
  return transport.batches.flat();
}

describe('identity', () => {
  beforeEach(() => start());

  test('ids of its own are UUIDv7, ascending in the order of enqueueing', async () => {
    const ids = await app.send(Array.from({ length: 500 }, (_, n) => ({ topic: 't', payload: n })));
    expect(new Set(ids).size).toBe(500);
    expect(
      ids.filter((id) => !/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(id)),
    ).toEqual([]);
    expect([...ids].sort()).toEqual(ids);
    const rows = await database.query<{ message_id: string }>('SELECT message_id FROM outbox_message ORDER BY id');
    expect(rows.map((row) => row.message_id)).toEqual(ids);
  });

  test("an id of the caller is kept; the same once more is a duplicate key error in the caller's transaction", async () => {
    expect(await app.send({ topic: 't', payload: 1, id: 'order-1:paid' })).toEqual(['order-1:paid']);
    const second = app.send([
      { topic: 't', payload: 2, id: 'other' },
      { topic: 't', payload: 2, id: 'order-1:paid' },
    ]);
    expect(isDuplicateKey(await second.catch((error: unknown) => error))).toBe(true);
    expect(await database.query('SELECT message_id FROM outbox_message')).toEqual([{ message_id: 'order-1:paid' }]);
  });

  test('ids differ by case and by trailing characters', async () => {
    await app.send(['a', 'A', 'a.'].map((id) => ({ topic: 't', payload: 1, id })));
    expect(await database.query('SELECT message_id FROM outbox_message')).toHaveLength(3);
  });
});

describe('payload', () => {
  test.each<[string, unknown]>([
    ['null', null],
    ['false', false],
    ['a number', 0.1],
    ['text', 'text with \u0000 and "quotes" \\'],
    ['an emoji', '👩‍👩‍👧‍👦 𝒳'],
    ['a list', [1, [2, { three: null }]]],
    ['an object', { when: new Date(0), deep: { ü: 'ß' } }],
  ])('%s arrives as it is in JSON', async (_what, payload) => {
    await start();
    const [message] = await arrived({ topic: 't', payload });
    expect(message?.payload).toEqual(JSON.parse(JSON.stringify(payload)));
    expect(message?.contentType).toBe('application/json');
  });

  test.each<[string, Uint8Array, number]>([
    ['bytes', Buffer.from([0, 1, 0xff, 0xc3, 0x28, 0x27, 0x5c]), 7],
    ['a part of a larger buffer', new Uint8Array(Buffer.from('abcdef')).subarray(2, 4), 2],
    ['no bytes', Buffer.alloc(0), 0],
    ['a megabyte of bytes', Buffer.alloc(1_000_000, 'x'), 1_000_000],
  ])('%s arrive byte by byte', async (_what, payload, length) => {
    await start();
    const [message] = await arrived({ topic: 't', payload, contentType: 'application/x-protobuf' });
    expect(message?.body.length).toBe(length);
    expect(message?.body.equals(payload)).toBe(true);
    expect(message?.contentType).toBe('application/x-protobuf');
  });

  test('emoji pass through a connection of three-byte UTF-8, in payload, key, subject and headers', async () => {
    await start({ dataSource: { charset: 'UTF8_GENERAL_CI' } });
    expect(await charsetOf(app.dataSource)).toMatch(/^utf8(mb3)?$/);
    const text = '🚚 ß';
    const [message] = await arrived({
      topic: 't',
      payload: { text },
      key: text,
      receiver: text,
      subject: text,
      headers: { text },
    });
    expect(message).toMatchObject({ payload: { text }, key: text, receiver: text, subject: text, headers: { text } });
  });
});

describe('delay', () => {
  beforeEach(() => start());

  test('a delayed message is not sent before its time, and then it is', async () => {
    await app.send([
      { topic: 't', payload: 'later', delay: '1h' },
      { topic: 't', payload: 'now' },
    ]);
    await app.outbox.runOnce();
    expect(transport.batches.flat().map(({ payload }) => payload)).toEqual(['now']);
    const [{ inSeconds } = { inSeconds: 0 }] = await database.query<{ inSeconds: number }>(
      "SELECT TIMESTAMPDIFF(SECOND, created_at, next_attempt_at) AS inSeconds FROM outbox_message WHERE status = 'pending'",
    );
    expect(inSeconds).toBe(3_600);
    await database.query("UPDATE outbox_message SET next_attempt_at = UTC_TIMESTAMP(3) WHERE status = 'pending'");
    await app.outbox.runOnce();
    expect(transport.batches.flat().map(({ payload }) => payload)).toEqual(['now', 'later']);
  });

  test('a delayed message of a key holds its followers back', async () => {
    await app.send([
      { topic: 't', key: 'k', payload: 1, delay: '1h' },
      { topic: 't', key: 'k', payload: 2 },
    ]);
    await app.outbox.runOnce();
    expect(transport.batches).toEqual([]);
  });
});

describe('headers', () => {
  const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

  test('what is given is sent along', async () => {
    await start();
    const [message] = await arrived({ topic: 't', payload: 1, headers: { 'x-tenant': 'a', empty: '' } });
    expect(message?.headers).toEqual({ 'x-tenant': 'a', empty: '' });
  });

  test('traceparent is carried over from an inbox handler, unless another one is given', async () => {
    class Handlers {
      @InboxHandler('paid', { source: 'shop' })
      async paid(_message: unknown, ctx: { manager: DataSource['manager'] }) {
        await app.outbox.enqueue(ctx.manager, [
          { topic: 't', payload: 'carried' },
          { topic: 't', payload: 'own', headers: { traceparent: 'mine', a: 'b' } },
        ]);
      }
    }
    await start({
      imports: [InboxModule.forRoot({ sources: { shop: { type: () => 'paid' } } })],
      providers: [Handlers],
    });
    await app.app.get(InboxService).receive('shop', { rawBody: '{}', headers: { traceparent } });
    await app.app.get(InboxService).runOnce();
    await app.outbox.runOnce();
    expect(transport.batches.flat().map(({ headers }) => headers)).toEqual([
      { traceparent },
      { traceparent: 'mine', a: 'b' },
    ]);
  });
});

describe('refused, with the name of the field', () => {
  beforeEach(() => start());

  const circular: Record<string, unknown> = {};
  circular.self = circular;

  test.each<[string, unknown]>([
    ['message', null],
    ['message', 'text'],
    ['topic', { payload: 1 }],
    ['topic', { topic: '', payload: 1 }],
    ['topic', { topic: 'two words', payload: 1 }],
    ['topic', { topic: 'ünïcode', payload: 1 }],
    ['topic', { topic: 't'.repeat(129), payload: 1 }],
    ['payload', { topic: 't' }],
    ['payload', { topic: 't', payload: () => 1 }],
    ['payload', { topic: 't', payload: 1n }],
    ['payload', { topic: 't', payload: circular }],
    ['contentType', { topic: 't', payload: 1, contentType: '' }],
    ['contentType', { topic: 't', payload: 1, contentType: 'a\nb' }],
    ['contentType', { topic: 't', payload: 1, contentType: 'x'.repeat(129) }],
    ['key', { topic: 't', payload: 1, key: '' }],
    ['key', { topic: 't', payload: 1, key: 1.5 }],
    ['key', { topic: 't', payload: 1, key: {} }],
    ['receiver', { topic: 't', payload: 1, receiver: Number.NaN }],
    ['receiver', { topic: 't', payload: 1, receiver: Buffer.alloc(0) }],
    ['id', { topic: 't', payload: 1, id: '' }],
    ['id', { topic: 't', payload: 1, id: 'x'.repeat(65) }],
    ['id', { topic: 't', payload: 1, id: 7 }],
    ['subject', { topic: 't', payload: 1, subject: true }],
    ['delay', { topic: 't', payload: 1, delay: -1 }],
    ['delay', { topic: 't', payload: 1, delay: 'soon' }],
    ['delay', { topic: 't', payload: 1, delay: '31d' }],
    ['delay', { topic: 't', payload: 1, delay: Number.NaN }],
    ['headers', { topic: 't', payload: 1, headers: 'a: b' }],
    ['headers', { topic: 't', payload: 1, headers: ['a'] }],
    ['headers.n', { topic: 't', payload: 1, headers: { n: 1 } }],
    ['headers', { topic: 't', payload: 1, headers: { long: 'x'.repeat(16_384) } }],
    ['strictOrder', { topic: 't', payload: 1, strictOrder: true }],
    ['strictOrder', { topic: 't', payload: 1, key: 'k', strictOrder: 'yes' }],
    ['sequence', { topic: 't', payload: 1, sequence: 1.5 }],
    ['sequence', { topic: 't', payload: 1, sequence: '1' }],
    ['sequence', { topic: 't', payload: 1, sequence: 2n ** 63n }],
    ['colour', { topic: 't', payload: 1, colour: 'red' }],
  ])('%s: %p', async (field, message) => {
    const refused = app.send([{ topic: 't', payload: 'before it' }, message as OutgoingMessage]);
    await expect(refused).rejects.toBeInstanceOf(InvalidMessageError);
    await expect(refused).rejects.toMatchObject({ message: expect.stringContaining(field) });
    expect(await database.query('SELECT id FROM outbox_message')).toEqual([]);
  });

  test('more than 10,000 messages at once', async () => {
    const messages = Array.from({ length: 10_001 }, () => ({ topic: 't', payload: 1 }));
    await expect(app.send(messages)).rejects.toThrow(InvalidMessageError);
  });

  test('the longest of everything is taken', async () => {
    const [message] = await arrived({
      topic: 't'.repeat(128),
      payload: 1,
      contentType: 'c'.repeat(128),
      key: 'k'.repeat(255),
      receiver: 'r'.repeat(255),
      subject: 's'.repeat(64),
      id: 'i'.repeat(64),
      sequence: -(2n ** 63n),
      headers: { long: 'x'.repeat(16_000) },
    });
    expect(message).toMatchObject({
      id: 'i'.repeat(64),
      key: 'k'.repeat(255),
      receiver: 'r'.repeat(255),
      subject: 's'.repeat(64),
      sequence: -(2n ** 63n),
    });
  });

  test('keys that are longer keep their order all the same', async () => {
    const key = `${'k'.repeat(300)}`;
    await app.send([1, 2].map((payload) => ({ topic: 't', key, payload })));
    const units = await database.query('SELECT DISTINCT open_unit FROM outbox_message');
    expect(units).toHaveLength(1);
  });
});

async function charsetOf(dataSource: DataSource): Promise<string> {
  const [row] = (await dataSource.query('SELECT @@character_set_client AS charset')) as { charset: string }[];
  return row?.charset ?? '';
}
