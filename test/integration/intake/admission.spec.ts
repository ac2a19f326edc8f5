// Admission: what is not taken in is answered at once, in a defined order, and what got a 200 is in the table. Time is
// held still with a table lock, so that "at once" is told by order: an answer that came while nothing could be stored.

import { Agent, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import type {
  InboxOptions,
  IntakeRefusedError,
  Receipt,
  SignatureVerifier,
  SourceOptions,
} from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { storeMessages } from '../../support/inbox-fleet.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
let app: InboxApp;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('admission'));
});
afterAll(() => database.drop());
beforeEach(() => database.query('DELETE FROM inbox_message'));
afterEach(() => app.close());

async function start(intake: InboxOptions['intake'], source: Partial<SourceOptions> = {}): Promise<void> {
  const other = { type: 't', maxBacklog: false, maxBacklogAge: false, ratePerSecond: false } as const;
  const inbox = { controlPool: 2, intake: { ackTimeout: '20s', ...intake }, sources: { other } } as const;
  app = await startInboxApp(database, { inbox, source: { path: 'in', ...source } });
}

const receive = (source = 'test', headers = {}) =>
  app.inbox.receive(source, { rawBody: '{"type":"t"}', headers }) as Promise<Receipt>;
const refusal = async (source = 'test', headers = {}): Promise<string> =>
  receive(source, headers).then(
    ({ status }) => status,
    (error: IntakeRefusedError) => error.refusal,
  );
const parts = () => app.app.get<InboxParts>(inboxPartsToken);
const rows = async () => Number((await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n);
/** A sample that began after everything before this call. */
async function sampled(): Promise<void> {
  await parts().pressure.refresh();
  await parts().pressure.refresh();
}

interface Answer {
  readonly status: number | undefined;
  readonly retryAfter: number;
  readonly receipt: Receipt;
}

/** fetch needs ten times as long for a burst. */
function postJson(agent: Agent, port: number): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const sent = request({ agent, port, host: '127.0.0.1', path: '/in', method: 'POST' }, (response) => {
      let body = '';
      response.on('data', (chunk: Buffer) => {
        body += chunk.toString();
      });
      response.on('end', () =>
        resolve({
          status: response.statusCode,
          retryAfter: Number(response.headers['retry-after']),
          receipt: JSON.parse(body),
        }),
      );
    });
    sent.on('error', reject);
    sent.end('{"type":"t"}');
  });
}

const verify: SignatureVerifier = {
  name: 'test',
  verify: ({ headers }) => (headers['x-signed'] ? { valid: true } : { valid: false, reason: 'mismatch' }),
};

describe('a burst above the capacity (C37)', () => {
  const burst = 1_000;
  const capacity = 50;

  it('is answered 503 with Retry-After while nothing can be stored, and every 200 is in the table', async () => {
    await start({ maxInFlight: capacity });
    await app.app.listen(0, '127.0.0.1');
    const { port } = app.app.getHttpServer().address() as AddressInfo;
    const agent = new Agent({ keepAlive: true, maxSockets: 200 });
    const post = () => postJson(agent, port);
    await database.query('LOCK TABLES inbox_message WRITE');
    const answered: Answer[] = [];
    const answers = Array.from({ length: burst }, async () => {
      const answer = await post();
      answered.push(answer);
      return answer;
    });
    try {
      // All of them before a single row could be written: none of these answers waited for the database.
      await waitUntil(() => answered.length === burst - capacity, { what: 'all that is too much is answered' });
      expect(new Set(answered.map(({ status }) => status))).toEqual(new Set([503]));
      for (const answer of answered) expect(answer.retryAfter).toBeGreaterThanOrEqual(1);
    } finally {
      await database.query('UNLOCK TABLES');
    }
    const stored = (await Promise.all(answers)).filter(({ status }) => status === 200);
    agent.destroy();
    const ids = stored.map(({ receipt }) => receipt.id);
    const table = await database.query<{ id: string }>('SELECT CAST(id AS CHAR) AS id FROM inbox_message');
    expect(ids.sort()).toEqual(table.map(({ id }) => id).sort());
    expect(stored).toHaveLength(capacity);
    expect([app.events('stored').length, app.events('refused').length]).toEqual([capacity, burst - capacity]);
  });

  it('leaves room again once the pushes in work are done', async () => {
    await start({ maxInFlight: 2 });
    await database.query('LOCK TABLES inbox_message WRITE');
    const first = [refusal(), refusal()];
    expect(await refusal()).toBe('overloaded');
    await database.query('UNLOCK TABLES');
    expect(await Promise.all(first)).toEqual(['stored', 'stored']);
    expect(await refusal()).toBe('stored');
  });

  it('does not read a long body that it will not take', async () => {
    await start({ maxInFlight: 1 });
    await app.app.listen(0, '127.0.0.1');
    const { port } = app.app.getHttpServer().address() as AddressInfo;
    await database.query('LOCK TABLES inbox_message WRITE');
    const first = refusal();
    const socket = connect(port, '127.0.0.1');
    let answer = '';
    socket.on('data', (chunk: Buffer) => {
      answer += chunk.toString();
    });
    try {
      // Only the head is sent: whoever waits for the body gets no answer.
      socket.write('POST /in HTTP/1.1\r\nhost: x\r\ncontent-length: 500000\r\n\r\n');
      await waitUntil(() => answer.startsWith('HTTP/1.1 503 '), { what: 'the push is refused by its head' });
    } finally {
      socket.destroy();
      await database.query('UNLOCK TABLES');
    }
    expect(await first).toBe('stored');
    expect(app.events('refused')).toMatchObject([{ source: 'test', refusal: 'overloaded' }]);
  });

  it('of one source leaves the places of the others alone', async () => {
    await start({}, { maxInFlight: 2 });
    await database.query('LOCK TABLES inbox_message WRITE');
    const held = [refusal(), refusal()];
    expect(await refusal()).toBe('overloaded');
    const other = refusal('other');
    await database.query('UNLOCK TABLES');
    expect(await Promise.all([...held, other])).toEqual(['stored', 'stored', 'stored']);
    expect(await refusal()).toBe('stored');
  });
});

describe('the rate of a source', () => {
  it('answers 429 with Retry-After above it; other sources go on', async () => {
    await start({ ratePerSecond: 0.01, rateBurst: 5 });
    const all = await Promise.all(Array.from({ length: 20 }, () => refusal()));
    expect(all.filter((status) => status === 'stored')).toHaveLength(5);
    expect(all.filter((status) => status === 'rate-limited')).toHaveLength(15);
    await expect(receive()).rejects.toMatchObject({ statusCode: 429, retryAfterMs: expect.any(Number) });
    expect(await refusal('other')).toBe('stored');
    expect(await rows()).toBe(6);
  });

  it('is not used up by pushes with a wrong signature', async () => {
    await start({ ratePerSecond: 0.01, rateBurst: 1 }, { verify });
    for (let attempt = 0; attempt < 10; attempt++) expect(await refusal()).toBe('signature');
    expect(await refusal('test', { 'x-signed': '1' })).toBe('stored');
    expect(await refusal('test', { 'x-signed': '1' })).toBe('rate-limited');
    expect(await refusal()).toBe('signature');
  });

  it('is told over HTTP as a 429 with whole seconds', async () => {
    await start({}, { ratePerSecond: 0.1, rateBurst: 1 });
    await app.app.listen(0, '127.0.0.1');
    const { port } = app.app.getHttpServer().address() as AddressInfo;
    const post = () =>
      fetch(`http://127.0.0.1:${port}/in`, { method: 'POST', body: '{"type":"t"}', headers: { connection: 'close' } });
    expect((await post()).status).toBe(200);
    const refused = await post();
    expect([refused.status, Number(refused.headers.get('retry-after')) >= 9]).toEqual([429, true]);
    expect(await refused.json()).toMatchObject({ statusCode: 429, error: 'Too Many Requests' });
  });
});

describe('what waits in the table', () => {
  it('closes the door at maxBacklog with a 503, and opens it again below four fifths of it', async () => {
    await start({ maxBacklog: 10 });
    await storeMessages(
      database,
      Array.from({ length: 10 }, () => ({})),
    );
    await sampled();
    await expect(receive()).rejects.toMatchObject({ refusal: 'backlog', statusCode: 503, retryAfterMs: 5_000 });
    expect(await refusal('other')).toBe('stored');
    await database.query('DELETE FROM inbox_message ORDER BY id LIMIT 3');
    await sampled();
    expect(await refusal()).toBe('backlog');
    await database.query('DELETE FROM inbox_message ORDER BY id LIMIT 1');
    await sampled();
    expect(await refusal()).toBe('stored');
    expect(app.events('intake-backlog')).toEqual([
      { name: 'intake-backlog', reason: 'depth', limit: 10, state: 'closed' },
      { name: 'intake-backlog', reason: 'depth', limit: 10, state: 'open' },
    ]);
  });

  it('counts messages that step aside for their entity, and no finished ones', async () => {
    await start({ maxBacklog: 10 });
    await storeMessages(
      database,
      Array.from({ length: 20 }, () => ({})),
    );
    await database.query("UPDATE inbox_message SET status = 'success' ORDER BY id LIMIT 11");
    await sampled();
    expect(await refusal()).toBe('stored');
    await database.query("UPDATE inbox_message SET status = 'held' WHERE status = 'pending' ORDER BY id LIMIT 5");
    await sampled();
    expect(await refusal()).toBe('backlog');
  });

  it('closes the door when the oldest due message is older than maxBacklogAge', async () => {
    await start({ maxBacklogAge: '1m' });
    await storeMessages(database, [{}, {}]);
    const due = (seconds: number) =>
      database.query(
        `UPDATE inbox_message SET received_at = UTC_TIMESTAMP(3) - INTERVAL 1 DAY,
           next_attempt_at = UTC_TIMESTAMP(3) - INTERVAL ${seconds} SECOND ORDER BY id LIMIT 1`,
      );
    await due(30);
    await sampled();
    expect(await refusal()).toBe('stored');
    await due(61);
    await sampled();
    expect(await refusal()).toBe('backlog');
    expect(await refusal('other')).toBe('stored');
    // A retry whose time has not come is not late.
    await due(-30);
    await sampled();
    expect(await refusal()).toBe('stored');
  });

  it('is found out by pushing alone', async () => {
    await start({ maxBacklog: 5 });
    await waitUntil(async () => (await refusal()) === 'backlog', { what: 'the door has noticed' });
    expect(await rows()).toBeGreaterThanOrEqual(5);
    expect(app.events('refused')).toHaveLength(1);
  });
});

describe('the wait for a connection', () => {
  it('is not joined by further pushes once it is long; those that wait are stored', async () => {
    await start({ maxPoolWait: 50 });
    const held = gate();
    const holders = [1, 2].map(() => parts().pool.withConnection(() => held.opened));
    const waiting = [refusal()];
    await waitUntil(
      async () => {
        const push = refusal();
        const told = await Promise.race([push, new Promise<null>((resolve) => setImmediate(resolve, null))]);
        if (told === null) waiting.push(push);
        return told === 'pool-busy';
      },
      { what: 'a push is refused for the wait of others' },
    );
    held.open();
    await Promise.all(holders);
    expect(new Set(await Promise.all(waiting))).toEqual(new Set(['stored']));
    expect(await refusal()).toBe('stored');
    expect(await rows()).toBe(waiting.length + 1);
  });
});

describe('the order of refusals', () => {
  it('is place, signature, rate, backlog', async () => {
    await start({ maxInFlight: 1, maxBacklog: 1, ratePerSecond: 0.01, rateBurst: 1 }, { verify });
    const signed = { 'x-signed': '1' };
    await storeMessages(database, [{}]);
    await sampled();
    expect(await refusal('test', signed)).toBe('backlog');
    expect(await refusal('test', signed)).toBe('rate-limited');
    expect(await refusal()).toBe('signature');
    await database.query('LOCK TABLES inbox_message WRITE');
    const holder = refusal('other');
    expect(await refusal()).toBe('overloaded');
    await database.query('UNLOCK TABLES');
    await holder;
  });
});
