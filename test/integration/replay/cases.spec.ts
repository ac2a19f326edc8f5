// Replay and retention cases of production: see test/README.md. C125 is about retention beside recovery.
import { createHmac } from 'node:crypto';
import { createConnection } from 'mysql2/promise';
import {
  hmacSignature,
  type InboxMessage,
  OverlappingRunError,
  PermanentFailureError,
  ReplayModule,
  ReplayService,
} from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { numbers } from '../../support/plans.js';
import { waitUntil } from '../../support/wait-until.js';

const audit = { actor: 'ann', reason: 'fixed', ratePerSecond: 10_000 };
let database: TestDatabase;
let app: InboxApp;
let replay: ReplayService;
let broken = true;
let seen: InboxMessage<unknown>[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('replay_cases'));
  const handler = (message: InboxMessage<Record<string, unknown>>) => {
    seen.push(message);
    if (broken) throw new PermanentFailureError('der Händler 🏪 is away', { kind: 'away' });
  };
  app = await startInboxApp(database, {
    handlers: { work: handler, other: handler, signed: [{ source: 'signed' }, handler] },
    inbox: {
      sources: {
        signed: {
          type: 'signed',
          dedupKey: ({ json }) => json.id,
          storeHeaders: ['x-note'],
          verify: hmacSignature({
            secrets: ['a secret of the sender'],
            header: 'x-signature',
            encoding: 'hex',
            algorithm: 'sha256',
          }),
        },
      },
    },
    imports: [ReplayModule.forRoot({ pollInterval: 50 })],
  });
  replay = app.app.get(ReplayService);
});
beforeEach(() => {
  broken = true;
  seen = [];
});
afterEach(async () => {
  for (const table of ['inbox_message', 'inbox_message_archive', 'replay_run', 'replay_item'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await app.close();
  await database.drop();
});

const ended = (id: string) =>
  waitUntil(async () => (await replay.get(id))?.state === 'done', { what: `run ${id} ends` });

async function failed(count: number, type = 'work'): Promise<string[]> {
  const ids = await Promise.all(
    Array.from({ length: count }, (_, n) => pushJson(app.inbox, { type, id: `${type}-${n}`, n })),
  );
  await drainInbox(app.inbox);
  return ids;
}

test('C61 the same keys again while their messages are replayed: one row each, told as a duplicate, handled once', async () => {
  const ids = await failed(60);
  broken = false;
  seen = [];
  const run = await replay.start({ all: true }, audit);
  const pushes = Array.from({ length: 180 }, (_, n) =>
    app.inbox.receive('test', { rawBody: JSON.stringify({ type: 'work', id: `work-${n % 60}`, n }) }),
  );
  const receipts = (await Promise.all([...pushes, ended(run.id)])).slice(0, 180) as {
    id: string;
    duplicate: boolean;
  }[];
  await drainInbox(app.inbox);
  expect(new Set(receipts.map(({ id }) => id))).toEqual(new Set(ids));
  expect(receipts.every(({ duplicate }) => duplicate)).toBe(true);
  expect(await replay.get(run.id)).toMatchObject({ selected: 60, requeued: 60 });
  expect(seen.map(({ id }) => id).sort()).toEqual([...ids].sort());
});

test('C61 the same keys again while their messages are discarded: a duplicate before, one new message after', async () => {
  const ids = await failed(60);
  broken = false;
  const run = await replay.discard({ all: true }, audit);
  const pushes = Array.from({ length: 180 }, (_, n) =>
    app.inbox.receive('test', { rawBody: JSON.stringify({ type: 'work', id: `work-${n % 60}`, n }) }),
  );
  const receipts = (await Promise.all([...pushes, ended(run.id)])).slice(0, 180) as {
    id: string;
    duplicate: boolean;
  }[];
  const stored = receipts.filter(({ duplicate }) => !duplicate).map(({ id }) => id);
  const rows = await database.query<{ id: string }>('SELECT CAST(id AS CHAR) AS id FROM inbox_message');
  expect(rows.map(({ id }) => id).sort()).toEqual([...stored].sort());
  for (const { id, duplicate } of receipts) if (duplicate) expect([...ids, ...stored]).toContain(id);
  expect(await replay.get(run.id)).toMatchObject({ selected: 60, discarded: 60 });
});

test('C81 many of two types: those of one are re-armed once each beside the consumer, a second press changes nothing', async () => {
  await failed(300);
  const others = await failed(20, 'other');
  broken = false;
  const press = () => replay.start({ type: 'work', failedFrom: '2020-01-01' }, audit);
  const presses = await Promise.allSettled([press(), press()]);
  const [run] = presses.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const refusals = presses.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
  expect(refusals).toEqual([expect.any(OverlappingRunError)]);
  while ((await replay.get(run?.id ?? ''))?.state !== 'done') await drainInbox(app.inbox);
  await drainInbox(app.inbox);
  const late = await press();
  await ended(late.id);
  expect(late.selected).toBe(0);
  expect(
    await database.query(
      'SELECT type, status, replay_count AS replays, COUNT(*) AS n FROM inbox_message GROUP BY 1, 2, 3',
    ),
  ).toEqual(
    expect.arrayContaining([
      { type: 'work', status: 'success', replays: 1, n: 300 },
      { type: 'other', status: 'failed', replays: 0, n: others.length },
    ]),
  );
});

test('C85 pages and time windows skip nothing and show nothing twice; a time that was shown can be given back', async () => {
  const ids = await failed(6);
  for (const [n, id] of ids.entries())
    await database.query('UPDATE inbox_message SET received_at = ? WHERE id = ?', [
      ['2026-01-01 00:00:00.123', '2026-01-01 00:00:00.123', '2026-01-01 00:00:00.124'][n % 3],
      id,
    ]);
  const shown: string[] = [];
  for (let after = '0'; ; ) {
    const page = await replay.messages({ all: true }, { after, limit: 2 });
    shown.push(...page.map(({ id }) => id));
    const last = page.at(-1);
    if (!last) break;
    after = last.id;
  }
  expect(shown).toEqual([...ids].sort((a, b) => Number(a) - Number(b)));
  const [first] = await replay.messages({ all: true });
  const border = (await replay.message(ids[2] ?? ''))?.receivedAt ?? '';
  const before = await replay.preview({ receivedFrom: first?.receivedAt ?? '', receivedTo: border });
  const after = await replay.preview({ receivedFrom: border });
  expect([before.count, after.count]).toEqual([4, 2]);
});

test('C89 C91 C93 C105 an old signed message, replayed twice, has the same bytes, headers and keys; nothing is verified again', async () => {
  const rawBody = Buffer.from('{"id":"🔑","n":7088992364139642881,"amt":0.1,"x":1e400,"note":"🏪"}');
  const signature = createHmac('sha256', 'a secret of the sender').update(rawBody).digest('hex');
  const headers = { 'x-signature': signature, 'x-note': 'naïve', 'content-type': 'application/json' };
  const { id } = (await app.inbox.receive('signed', { rawBody, headers })) as { id: string };
  await database.query("UPDATE inbox_message SET received_at = '2020-01-01', next_attempt_at = '2020-01-01'");
  await drainInbox(app.inbox);
  expect((await replay.message(id))?.errorMessage).toContain('🏪');
  for (let n = 0; n < 2; n++) {
    broken = n === 0;
    await ended((await replay.start({ ids: [id] }, audit)).id);
    await drainInbox(app.inbox);
  }
  expect(seen).toHaveLength(3);
  const [first, ...again] = seen.map(({ body, headers: kept, json }) => ({ body, kept, json }));
  expect(first?.body.equals(rawBody)).toBe(true);
  expect(first?.kept).toMatchObject({ 'x-note': 'naïve' });
  expect(again).toEqual([first, first]);
  expect(await replay.message(id)).toMatchObject({ status: 'success', replays: 2 });
  expect((await replay.message(id))?.history.map(({ errorMessage }) => errorMessage)).toEqual([
    expect.stringContaining('🏪'),
    expect.stringContaining('🏪'),
  ]);
});

test('C125 orphans are recovered while a purge holds a batch of old messages', async () => {
  await database.query(
    `INSERT INTO inbox_message (source, type, body, status, next_attempt_at, finished_at)
     SELECT 'test', 'work', '{}', 'success', '2020-01-01', '2020-01-01' FROM ${numbers(0, 2_000)}`,
  );
  await database.query(
    `INSERT INTO inbox_message (source, type, body, status, attempts, next_attempt_at, claimed_by, claim_token, claimed_until)
     VALUES ('test', 'work', '{}', 'processing', 1, '2020-01-01', 'gone', REPEAT('x', 16), '2020-01-01')`,
  );
  broken = false;
  const purge = await createConnection(database.url);
  try {
    await purge.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
    await purge.query('START TRANSACTION');
    await purge.query("DELETE FROM inbox_message WHERE status = 'success' ORDER BY id LIMIT 500");
    const recovering = await startInboxApp(database, {
      inbox: { enabled: true, recoveryInterval: 100 },
      handlers: { work: () => undefined },
    });
    try {
      await waitUntil(
        async () => (await database.query("SELECT id FROM inbox_message WHERE status <> 'success'")).length === 0,
        { what: 'the orphan is handled' },
      );
    } finally {
      await recovering.close();
    }
    await purge.query('ROLLBACK');
  } finally {
    await purge.end();
  }
});
