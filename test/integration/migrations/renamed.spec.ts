// A table in which every column of ours has another name: whatever the modules do, they do it there, and inbox_message stays
// empty. A statement that forgets a name fails.
import { Registry } from 'prom-client';
import { adoptTable } from '../../../migrations/index.js';
import {
  type InboxOptions,
  type InboxTableOption,
  MailroomHealthIndicator,
  MailroomHealthModule,
  MailroomMetricsModule,
  ReplayModule,
  ReplayService,
  RetentionModule,
  RetentionService,
} from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { migrate } from '../../support/message-log.js';
import { waitUntil } from '../../support/wait-until.js';

const ours = [
  ...[
    'id',
    'source',
    'type',
    'dedupKey',
    'entityKey',
    'openEntity',
    'lane',
    'sequence',
    'headers',
    'contentType',
    'body',
  ],
  ...['status', 'attempts', 'nextAttemptAt', 'claimToken', 'claimedBy', 'claimedUntil', 'errorMessage', 'errorKind'],
  ...['replayCount', 'replayOf', 'receivedAt', 'updatedAt', 'finishedAt'],
] as const;
const table = {
  name: 'everything_else',
  columns: Object.fromEntries(ours.map((name) => [name, `the_${name}`])),
} as InboxTableOption;

let database: TestDatabase;
const running: InboxApp[] = [];

beforeEach(async () => {
  database = await migrated(await createTestDatabase('renamed'));
  await database.query(
    'CREATE TABLE everything_else (the_id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB',
  );
  await database.query('CREATE TABLE effect (message_id BIGINT UNSIGNED NOT NULL)');
  const { phase1 } = adoptTable({ table: table.name, columns: table.columns ?? {}, log: () => undefined });
  await migrate(database, (runner) => new phase1().up(runner));
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  expect(await database.query('SELECT COUNT(*) AS n FROM inbox_message')).toEqual([{ n: 0 }]);
  await database.drop();
});

const rows = () =>
  database.query<{ id: number; status: string; attempts: number }>(
    'SELECT the_id AS id, the_status AS status, the_attempts AS attempts FROM everything_else ORDER BY the_id',
  );
const statuses = async () => (await rows()).map(({ status }) => status);

async function start(inbox: Partial<InboxOptions> = {}, more: Omit<InboxAppOptions, 'inbox'> = {}): Promise<InboxApp> {
  const app = await startInboxApp(database, {
    handlers: {
      good: (message, ctx) => ctx.manager.query('INSERT INTO effect VALUES (?)', [message.id]),
      far: [{ transactional: false }, () => undefined],
      bad: [
        { maxRetry: 0 },
        () => {
          throw new Error('no');
        },
      ],
      later: () => {
        throw new Error('not yet');
      },
    },
    ...more,
    inbox: { table, backoff: ['1h'], ...inbox },
  });
  running.push(app);
  return app;
}

test.each(['ordered', 'competing'] as const)(
  '%s: intake, order, retries, put-off, recovery and what is asked',
  async (mode) => {
    const app = await start({ mode, roundInterval: 20 });
    const big = 'x'.repeat(50_000);
    const bodies = [
      { type: 'good', id: '1', entity: 'a', big },
      { type: 'far', id: '2', entity: 'a' },
      { type: 'bad', id: '3' },
      { type: 'later', id: '4', entity: 'b' },
      { type: 'good', id: '5', entity: 'b' },
      { type: 'nobody', id: '6' },
    ];
    const ids: string[] = [];
    for (const body of bodies) ids.push(await pushJson(app.inbox, body));
    expect(await pushJson(app.inbox, bodies[0] ?? {})).toBe(ids[0]);
    await drainInbox(app.inbox);
    const fifth = mode === 'ordered' ? 'held' : 'success';
    expect(await statuses()).toEqual(['success', 'success', 'failed', 'pending', fifth, 'pending']);
    expect(await app.inbox.stats()).toMatchObject({ counts: { failed: { count: 1 }, pending: { count: 2 } } });
    for (const id of ids) expect(await app.inbox.why(id)).toMatchObject({ code: expect.any(String) });
    // The process that had it is gone.
    await database.query(
      "UPDATE everything_else SET the_status = 'processing', the_claimToken = REPEAT('t', 16), the_claimedUntil = '2001-01-01' WHERE the_id = ?",
      [ids[3]],
    );
    await app.inbox.recoverOnce();
    expect((await statuses())[3]).toBe('pending');
  },
);

test('replay, discard, edit, the looks, retention, metrics and health', async () => {
  const registry = new Registry();
  const app = await start(
    {},
    {
      imports: [
        MailroomMetricsModule.forRoot({ registry, sampleFor: 0 }),
        MailroomHealthModule.forRoot(),
        ReplayModule.forRoot({ inboxTable: table, edit: true, pollInterval: '100ms' }),
        RetentionModule.forRoot({ inboxTable: table, enabled: false, success: '7d', archive: true }),
      ],
    },
  );
  const [first = '', second = '', third = ''] = [
    await pushJson(app.inbox, { type: 'bad', id: 'x1', entity: 'e' }),
    await pushJson(app.inbox, { type: 'bad', id: 'x2' }),
    await pushJson(app.inbox, { type: 'bad', id: 'x3' }),
  ];
  await pushJson(app.inbox, { type: 'good', id: 'x4' });
  await drainInbox(app.inbox);
  const replay = app.app.get(ReplayService);
  const asked = { actor: 'test', reason: 'test', ratePerSecond: 100 };
  expect(await replay.preview({ source: 'test', errorKind: 'Error', receivedFrom: '2001-01-01' })).toMatchObject({
    count: 3,
  });
  expect(await replay.messages({ all: true })).toMatchObject([{ id: first }, { id: second }, { id: third }]);
  expect(await replay.message(first)).toMatchObject({
    id: first,
    type: 'bad',
    key: 'e',
    body: expect.stringContaining('x1'),
  });
  const done = (id: string) =>
    waitUntil(async () => (await replay.get(id))?.state === 'done', { what: 'the run is done', timeoutMs: 20_000 });
  await done((await replay.start({ ids: [first] }, asked)).id);
  await done((await replay.discard({ ids: [second] }, asked)).id);
  const edited = await replay.edit(third, { body: Buffer.from('{"type":"good"}'), actor: 'test', reason: 'mended' });
  expect(await rows()).toMatchObject([
    { id: Number(first), status: 'pending', attempts: 0 },
    { status: 'success' },
    { id: Number(edited.messageId), status: 'pending' },
  ]);
  expect(await database.query('SELECT id, status FROM inbox_message_archive ORDER BY archive_id')).toEqual(
    [first, second, third].map((id) => ({ id: Number(id), status: 'failed' })),
  );

  const scrape = await registry.metrics();
  expect(scrape).toContain('mailroom_messages{box="inbox",status="success"} 1');
  expect(scrape).toContain('mailroom_sample_up{box="inbox"} 1');
  expect((await app.app.get(MailroomHealthIndicator).ready()).mailroom.status).toBe('up');

  await database.query(
    "UPDATE everything_else SET the_finishedAt = '2001-01-01', the_nextAttemptAt = '2001-01-01' WHERE the_status = 'success'",
  );
  await app.app.get(RetentionService).runOnce();
  expect((await statuses()).filter((status) => status === 'success')).toEqual([]);
  expect(await database.query("SELECT reason FROM inbox_message_archive WHERE reason = 'retention'")).toHaveLength(1);
});
