// The pressure that door and consumer share: retries of a limited source make room, and slow handlers get less at once.
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from '@jest/globals';
import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import type { InboxOptions, IntakeRefusedError, SourceOptions } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, startInboxApp, type TestHandler } from '../../support/inbox-app.js';
import { storeMessages } from '../../support/inbox-fleet.js';

let database: TestDatabase;
let app: InboxApp;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('pressure'));
});
afterAll(() => database.drop());
beforeEach(() => database.query('DELETE FROM inbox_message'));
afterEach(() => app.close());

async function start(handler: TestHandler, inbox: Partial<InboxOptions> = {}, source: Partial<SourceOptions> = {}) {
  app = await startInboxApp(database, { handlers: { work: handler }, inbox, source });
}

const pressure = () => app.app.get<InboxParts>(inboxPartsToken).pressure;
const push = (body: object) =>
  app.inbox.receive('test', { rawBody: JSON.stringify({ type: 'work', ...body }) }).then(
    () => 'stored',
    (error: IntakeRefusedError) => error.refusal,
  );
const messages = () =>
  database.query<{ n: string; status: string; attempts: number; waits: number }>(
    `SELECT JSON_UNQUOTE(JSON_EXTRACT(CONVERT(body USING utf8mb4), '$.n')) AS n, status, attempts,
       next_attempt_at > UTC_TIMESTAMP(3) AS waits FROM inbox_message ORDER BY id`,
  );
const failOnce = (seen: string[]) => (message: { json: Record<string, unknown> }, ctx: { attempt: number }) => {
  seen.push(`${message.json.n}/${ctx.attempt}`);
  if (String(message.json.n).startsWith('bad') && ctx.attempt === 1) throw new Error('not now');
};

it('retries of a source that pushes above its rate make room for first attempts', async () => {
  const seen: string[] = [];
  await start(failOnce(seen), { maxRetry: 5 }, { ratePerSecond: 0.01, rateBurst: 4 });
  expect([await push({ n: 'bad1' }), await push({ n: 'bad2' })]).toEqual(['stored', 'stored']);
  await app.inbox.runOnce();
  seen.length = 0;
  await database.query("UPDATE inbox_message SET status = 'pending', attempts = 1, next_attempt_at = '2000-01-01'");
  await push({ n: 'new1' });
  await push({ n: 'new2' });
  expect(await push({ n: 'new3' })).toBe('rate-limited');
  await app.inbox.runOnce();
  expect(seen).toEqual(['new1/1', 'new2/1']);
  expect(await messages()).toEqual([
    { n: 'bad1', status: 'pending', attempts: 1, waits: 1 },
    { n: 'bad2', status: 'pending', attempts: 1, waits: 1 },
    { n: 'new1', status: 'success', attempts: 1, waits: expect.any(Number) },
    { n: 'new2', status: 'success', attempts: 1, waits: expect.any(Number) },
  ]);
  expect(app.events('put-off')).toMatchObject([{ source: 'test', count: 2, reason: 'its source is limited' }]);
  // Nothing else is due now: they do not wait for a source that never becomes quiet.
  await database.query("UPDATE inbox_message SET next_attempt_at = '2000-01-01' WHERE status = 'pending'");
  expect(await push({ n: 'new4' })).toBe('rate-limited');
  await app.inbox.runOnce();
  expect(seen).toEqual(['new1/1', 'new2/1', 'bad1/2', 'bad2/2']);
});

it('retries of a source that is turned away for the backlog make room too; a source that is not goes on', async () => {
  const seen: string[] = [];
  await start(failOnce(seen), { intake: { maxBacklog: 3 } });
  await storeMessages(database, [{ n: 'retry' }, { n: 'a' }, { n: 'b' }]);
  await database.query(
    'UPDATE inbox_message SET attempts = 1, next_attempt_at = UTC_TIMESTAMP(3) - INTERVAL 1 HOUR ORDER BY id LIMIT 1',
  );
  await pressure().refresh();
  expect(await push({ n: 'c' })).toBe('backlog');
  await app.inbox.runOnce();
  expect(seen).toEqual(['a/1', 'b/1']);
  await pressure().refresh();
  await database.query("UPDATE inbox_message SET next_attempt_at = '2000-01-01' WHERE status = 'pending'");
  await storeMessages(database, [{ n: 'd' }]);
  await app.inbox.runOnce();
  expect(seen).toEqual(['a/1', 'b/1', 'retry/2', 'd/1']);
});

it('rising handler latency lowers how many lanes handle a message at the same time, and all lanes get their turn', async () => {
  let running = 0;
  // With each that is quick again there may be more, so it is the first ones that tell.
  let most = 0;
  const seen = new Set<unknown>();
  const handler: TestHandler = async (message) => {
    running++;
    if (seen.size < 3) {
      // The first ones wait for company, and then for more than there should be.
      const until = performance.now() + 5_000;
      while (running < 2 && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 5));
      await new Promise((resolve) => setTimeout(resolve, 100));
      most = Math.max(most, running);
    }
    seen.add(message.json.n);
    running--;
  };
  await start(handler, { lanes: 8 });
  for (let n = 0; n < 100; n++) pressure().handled('test', 'erp', 100);
  for (let n = 0; n < 60; n++) pressure().handled('test', 'erp', 5_000);
  expect(pressure().concurrency(8)).toBe(2);
  const bodies = Array.from({ length: 24 }, (_, n) => ({ n, entity: `e${n}` }));
  await storeMessages(database, bodies, 8);
  await app.inbox.runOnce();
  expect(most).toBe(2);
  expect(seen.size).toBe(24);
  expect(new Set((await messages()).map(({ status }) => status))).toEqual(new Set(['success']));
});

it('without pressure, and with adaptiveConcurrency off, all lanes work at the same time', async () => {
  let running = 0;
  let most = 0;
  const all = gate();
  const handler: TestHandler = async () => {
    most = Math.max(most, ++running);
    if (running === 4) all.open();
    await all.opened;
    running--;
  };
  await start(handler, { lanes: 4, adaptiveConcurrency: false });
  for (let n = 0; n < 100; n++) pressure().handled('test', 'work', 100);
  for (let n = 0; n < 60; n++) pressure().handled('test', 'work', 5_000);
  const bodies = Array.from({ length: 40 }, (_, n) => ({ n, entity: `e${n}` }));
  await storeMessages(database, bodies, 4);
  await app.inbox.runOnce();
  expect(most).toBe(4);
});

it('the time of handlers that ran is what counts', async () => {
  let slow = false;
  await start(async () => void (await app.dataSource.query(`SELECT SLEEP(${slow ? 1 : 0.02})`)), { lanes: 4 });
  const batch = (from: number, count: number) =>
    storeMessages(
      database,
      Array.from({ length: count }, (_, n) => ({ entity: `e${from + n}` })),
      4,
    );
  await batch(0, 24);
  await app.inbox.runOnce();
  expect(pressure().concurrency(4)).toBe(4);
  slow = true;
  await batch(100, 16);
  await app.inbox.runOnce();
  expect(pressure().concurrency(100)).toBeLessThan(100);
});
