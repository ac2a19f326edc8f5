// Cases of CASES.md about duplicates and fidelity, on the server of the run: each test is named by its case.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { InboxMessage, Receipt, SourceOptions } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, type InboxAppOptions, startInboxApp } from '../../support/inbox-app.js';

let database: TestDatabase;
let app: InboxApp;

beforeAll(async () => {
  // Neither the database's charset nor its collation is ours to choose: the tables bring theirs.
  database = await migrated(await createTestDatabase('intake_cases', { charset: 'latin1' }));
});
afterAll(() => database.drop());
beforeEach(() => database.query('DELETE FROM inbox_message'));
afterEach(() => app.close());

const start = async (options: InboxAppOptions = {}) => {
  app = await startInboxApp(database, options);
};
const receive = (body: string | Buffer, source = 'test', headers = {}) =>
  app.inbox.receive(source, { rawBody: body, headers }) as Promise<Receipt>;
const rows = async () => Number((await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n);

describe('duplicates', () => {
  it('C61: the same delivery again, of a message that failed, is a 200 and a duplicate, counted, and changes nothing', async () => {
    await start({
      inbox: { maxRetry: 0 },
      handlers: {
        t: () => {
          throw new Error('no');
        },
      },
    });
    const { id } = await receive('{"type":"t","id":"d1"}');
    await app.inbox.runOnce();
    const row = () => database.query('SELECT status, attempts, error_message FROM inbox_message');
    const before = await row();
    expect(before).toMatchObject([{ status: 'failed', attempts: 1 }]);
    expect(await receive('{"type":"t","id":"d1"}')).toEqual({ id, duplicate: true, status: 'duplicate' });
    await app.inbox.runOnce();
    expect(await row()).toEqual(before);
    expect(app.events('duplicate')).toMatchObject([{ name: 'duplicate', source: 'test', type: 't', id }]);
  });

  it('C63: copies with an id of their own are two rows, and one row where the key is taken from what they are about', async () => {
    const derived: SourceOptions = { type: 't', dedupKey: (push) => push.json.payment };
    const byDelivery: SourceOptions = { type: 't', dedupKey: (push) => push.header('x-delivery') };
    await start({ inbox: { sources: { derived, byDelivery } } });
    const body = '{"payment":"p1","amount":5}';
    for (const delivery of ['1', '2']) await receive(body, 'byDelivery', { 'x-delivery': delivery });
    expect(await rows()).toBe(2);
    expect((await receive(body, 'derived', { 'x-delivery': '1' })).duplicate).toBe(false);
    expect((await receive(body, 'derived', { 'x-delivery': '2' })).duplicate).toBe(true);
    expect(await rows()).toBe(3);
    for (const bad of ['{}', '{"payment":""}', 'no json']) {
      await expect(receive(bad, 'derived')).rejects.toMatchObject({ statusCode: 400 });
      await expect(receive(bad, 'derived')).rejects.toMatchObject({ statusCode: 400 });
    }
    expect(await rows()).toBe(3);
  });

  it('C65: trailing blanks make another key, whatever the collation', async () => {
    await start();
    const ids = ['evt_1', 'evt_1 ', 'evt_1\t', 'evt_1\n', 'evt_1\u00a0', 'EVT_1', 'évt_1'];
    for (const id of ids) expect((await receive(JSON.stringify({ type: 't', id }))).duplicate).toBe(false);
    for (const id of ids) expect((await receive(JSON.stringify({ type: 't', id }))).duplicate).toBe(true);
    expect(await rows()).toBe(ids.length);
  });

  it('C67: one id from two senders is two messages, from one sender one', async () => {
    const provider: SourceOptions = { type: 't', dedupKey: (push) => push.json.id };
    await start({ inbox: { sources: { a: provider, b: provider } } });
    const receipts = [
      await receive('{"id":42}', 'a'),
      await receive('{"id":42}', 'b'),
      await receive('{"id":42}', 'a'),
    ];
    expect(receipts.map(({ duplicate }) => duplicate)).toEqual([false, false, true]);
    expect(receipts[2]?.id).toBe(receipts[0]?.id);
    expect(await rows()).toBe(2);
  });

  it('C35: a copy with other whitespace, after the first was handled, is still a duplicate', async () => {
    let handled = 0;
    await start({ handlers: { t: () => void handled++ } });
    const { id } = await receive('{"type":"t","id":"same"}');
    await app.inbox.runOnce();
    expect(await receive('{ "type": "t",  "id": "same" }')).toMatchObject({ id, duplicate: true });
    await app.inbox.runOnce();
    expect(handled).toBe(1);
  });
});

describe('fidelity', () => {
  it('C89: a handler gets the bytes that were sent, and its own parser sees every digit', async () => {
    const sent = '{"type":"t","id":7088992364139642881,"amt":0.1,"x":1e400,"x":2}'.replace('"id":7', '"big":7');
    const bodies: Buffer[] = [];
    const digits: (string | undefined)[] = [];
    await start({
      handlers: {
        t: (message) => {
          bodies.push(message.body);
          digits.push(/"big":(\d+)/.exec(message.text)?.[1]);
          // JSON.parse rounds: that is what `json` gives, and why `text` and `body` are there.
          expect((message.json as { big: number }).big).toBe(7088992364139643000);
        },
      },
    });
    await receive(sent);
    await app.inbox.runOnce();
    expect(bodies.map(String)).toEqual([sent]);
    expect(digits).toEqual(['7088992364139642881']);
    const [row] = await database.query<{ body: Buffer; status: string }>('SELECT body, status FROM inbox_message');
    expect([row?.body.toString(), row?.status]).toEqual([sent, 'success']);
  });

  it('C91: body and headers are the same values at every attempt, on either server', async () => {
    const seen: unknown[] = [];
    await start({
      inbox: { maxRetry: 2 },
      handlers: {
        t: (message, ctx) => {
          seen.push({ json: message.json, headers: message.headers });
          if (ctx.attempt < 3) throw new Error('again');
        },
      },
    });
    const body = { type: 't', nested: { list: [1, '1', null, true], text: '{"a":"\\"b\\""}' } };
    await receive(JSON.stringify(body), 'test', { 'content-type': 'application/json', 'x-request-id': '{"a":1}' });
    for (let attempt = 1; attempt <= 3; attempt++) await app.inbox.runOnce();
    const once = { json: body, headers: { 'content-type': 'application/json', 'x-request-id': '{"a":1}' } };
    expect(seen).toEqual([once, once, once]);
  });

  it('C93: characters of four bytes in body, header, key, entity and error are stored and given back unchanged', async () => {
    const seen: Partial<InboxMessage>[] = [];
    await start({
      inbox: { maxRetry: 1 },
      handlers: {
        t: (message, ctx) => {
          seen.push({ text: message.text, headers: message.headers, entityKey: message.entityKey });
          if (ctx.attempt === 1) throw new Error('the 🚀 exploded 𝕏');
        },
      },
    });
    const body = JSON.stringify({ type: 't', id: 'evt-😀', entity: 'order-🛒', note: '𠜎 é' });
    const first = await receive(body, 'test', { 'x-request-id': 'req-🚀' });
    await app.inbox.runOnce();
    const [row] = await database.query<{ error_message: string; key_hex: string }>(
      'SELECT error_message, HEX(dedup_key) AS key_hex FROM inbox_message',
    );
    expect(row?.error_message).toContain('the 🚀 exploded 𝕏');
    expect(Buffer.from(row?.key_hex ?? '', 'hex').toString()).toBe('evt-😀');
    await app.inbox.runOnce();
    const once = { text: body, headers: { 'x-request-id': 'req-🚀' }, entityKey: 'order-🛒' };
    expect(seen).toEqual([once, once]);
    expect(await receive(body)).toMatchObject({ id: first.id, duplicate: true });
  });

  it('C105: what was stored days ago is handled without asking for its signature again', async () => {
    let handled = 0;
    let checks = 0;
    await start({
      handlers: { t: () => void handled++ },
      source: {
        verify: {
          name: 'counted',
          verify: () => {
            checks++;
            return { valid: true };
          },
        },
      },
    });
    await receive('{"type":"t"}');
    await database.query(
      'UPDATE inbox_message SET received_at = received_at - INTERVAL 3 DAY, next_attempt_at = next_attempt_at - INTERVAL 3 DAY',
    );
    await app.inbox.runOnce();
    expect([handled, checks]).toEqual([1, 1]);
  });
});
