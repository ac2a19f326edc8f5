// Edits: a message with another body in the place of one that ended; over the service and over HTTP.
import { type CanActivate, Global, Module } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { getDataSourceToken } from '@nestjs/typeorm';
import { EditRefusedError, OverlappingRunError, ReplayModule, ReplayService } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';

class Anybody implements CanActivate {
  canActivate(): boolean {
    return true;
  }
}

@Global()
@Module({ providers: [{ provide: getDataSourceToken(), useValue: {} }], exports: [getDataSourceToken()] })
class NoDatabase {}

const audit = { actor: 'ann', reason: 'the amount was text' };
let database: TestDatabase;
let app: InboxApp;
let replay: ReplayService;
let handled: unknown[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('edit'));
  app = await startInboxApp(database, {
    handlers: {
      work({ json }) {
        if (typeof json.amount !== 'number') throw new TypeError('amount must be a number');
        handled.push(json);
      },
    },
    inbox: { maxRetry: 0 },
    providers: [Anybody],
    imports: [
      ReplayModule.forRootAsync({
        http: { path: 'admin', guard: Anybody, actor: () => 'http-ann' },
        useFactory: async () => ({ pollInterval: 50, edit: true, maxReplays: 2 }),
      }),
    ],
  });
  await app.app.listen(0, '127.0.0.1');
  replay = app.app.get(ReplayService);
});
afterEach(async () => {
  handled = [];
  for (const table of ['inbox_message', 'inbox_message_archive', 'replay_run', 'replay_item', 'outbox_message'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await app.close();
  await database.drop();
});

const broken = { type: 'work', id: 'k', entity: 'e', amount: 'ten' };
const mended = JSON.stringify({ ...broken, amount: 10 });

async function failed(body: Readonly<Record<string, unknown>> = broken): Promise<string> {
  const id = await pushJson(app.inbox, body);
  await drainInbox(app.inbox);
  return id;
}

test('a mended copy is handled in the place of the broken message, with its keys, a link and a record', async () => {
  const id = await failed();
  const { runId, messageId } = await replay.edit(id, { ...audit, body: mended });
  await drainInbox(app.inbox);
  expect(handled).toEqual([{ ...broken, amount: 10 }]);
  expect(await replay.message(id)).toBeNull();
  expect(await replay.message(messageId)).toMatchObject({
    status: 'success',
    replayOf: id,
    replays: 1,
    key: 'e',
    history: [
      { messageId: id, runId, errorMessage: expect.stringContaining('amount'), reason: `edit: ${audit.reason}` },
    ],
  });
  expect(await replay.get(runId)).toMatchObject({ ...audit, action: 'edit', state: 'done', selected: 1, requeued: 1 });
  expect(await replay.items(runId)).toMatchObject([
    { messageId: id, outcome: 'requeued', detail: `as message ${messageId}` },
  ]);
  expect(await database.query('SELECT body FROM inbox_message_archive')).toEqual([
    { body: Buffer.from(JSON.stringify(broken)) },
  ]);
});

test('the sender’s copy of an edited message stays a duplicate', async () => {
  const id = await failed();
  const { messageId } = await replay.edit(id, { ...audit, body: mended });
  expect(await app.inbox.receive('test', { rawBody: JSON.stringify(broken) })).toMatchObject({
    id: messageId,
    duplicate: true,
  });
  await drainInbox(app.inbox);
  expect(handled).toHaveLength(1);
});

test('of two people who edit a message at the same moment one is refused; there is one new message', async () => {
  const id = await failed();
  const results = await Promise.allSettled([1, 2].map(() => replay.edit(id, { ...audit, body: mended })));
  expect(results.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  const refusal = results.find((result) => result.status === 'rejected')?.reason;
  expect(refusal).toBeInstanceOf(EditRefusedError);
  expect(refusal).toMatchObject({ problem: 'not-there', statusCode: 404 });
  await drainInbox(app.inbox);
  expect(handled).toHaveLength(1);
});

test('what a run has before it, what has not ended and what was replayed too often is not edited', async () => {
  const id = await failed();
  const run = await replay.start({ ids: [id] }, { ...audit, ratePerSecond: 0.1 });
  await expect(replay.edit(id, { ...audit, body: mended })).rejects.toThrow(OverlappingRunError);
  await replay.cancel(run.id);
  await database.query('UPDATE inbox_message SET replay_count = 2');
  await expect(replay.edit(id, { ...audit, body: mended })).rejects.toMatchObject({ problem: 'too-often' });
  await database.query("UPDATE inbox_message SET replay_count = 0, status = 'pending'");
  await expect(replay.edit(id, { ...audit, body: mended })).rejects.toMatchObject({ problem: 'not-ended' });
  await expect(replay.edit(id, { ...audit, body: 'x'.repeat(1_048_577) })).rejects.toThrow(/^body: /);
  await expect(replay.edit(id, { ...audit, body: 5 as never })).rejects.toThrow(/^body: /);
  await expect(replay.edit(id, { ...audit, reason: ' ', body: mended })).rejects.toThrow(/^reason: /);
  expect(await database.query('SELECT id FROM inbox_message_archive')).toEqual([]);
  expect(await database.query("SELECT id FROM replay_run WHERE action = 'edit'")).toEqual([]);
});

test('a message of the outbox leaves with a new id and its keys', async () => {
  await database.query(
    `INSERT INTO outbox_message (message_id, topic, message_key, receiver, subject, payload, status, next_attempt_at, created_at, sent_at)
     VALUES ('old', 't', 'k', 'r', 's', '{}', 'dead', '2020-01-01', '2020-01-01', '2020-01-01')`,
  );
  const [old] = await database.query<{ id: number }>('SELECT id FROM outbox_message');
  await replay.edit(String(old?.id), { ...audit, box: 'outbox', body: '{"a":1}' });
  const [row, ...more] = await database.query(
    `SELECT message_id AS id, topic, CAST(message_key AS CHAR) AS k, CAST(receiver AS CHAR) AS r, CAST(subject AS CHAR) AS s,
            CAST(payload AS CHAR) AS payload, status, CAST(replay_of AS CHAR) AS original, open_unit IS NOT NULL AS open
       FROM outbox_message`,
  );
  expect(more).toEqual([]);
  expect(row).toMatchObject({ topic: 't', k: 'k', r: 'r', s: 's', payload: '{"a":1}', status: 'pending', open: 1 });
  expect(row).toMatchObject({ original: String(old?.id), id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
});

test('over HTTP the actor is that of the request', async () => {
  const id = await failed();
  const url = `${await app.app.getUrl()}/admin/messages/${id}/edit`;
  const edit = (body: object) =>
    fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) });
  expect((await edit({ reason: 'no body' })).status).toBe(400);
  const answer = await edit({ body: mended, reason: 'mended', actor: 'mallory' });
  expect(answer.status).toBe(201);
  const { runId } = (await answer.json()) as { runId: string };
  expect(await replay.get(runId)).toMatchObject({ actor: 'http-ann', reason: 'mended' });
  expect((await edit({ body: mended, reason: 'mended' })).status).toBe(404);
});

test('edits are off unless the option is set', async () => {
  const off = await startInboxApp(database, { imports: [ReplayModule.forRoot({ enabled: false })] });
  try {
    const refused = off.app.get(ReplayService).edit('1', { ...audit, body: '{}' });
    await expect(refused).rejects.toMatchObject({ code: 'MAILROOM_EDIT_REFUSED', problem: 'off', statusCode: 403 });
  } finally {
    await off.close();
  }
});

test('a factory cannot mount routes, and its mistakes stop the start-up', async () => {
  for (const [options, words] of [
    [{ http: { path: 'admin', guard: Anybody } }, /^replay\.http: /],
    [{ dataSource: 'other' }, /^replay\.dataSource: /],
    [{ ratePerSecond: 'fast' }, /^replay\.ratePerSecond: /],
  ] as const) {
    const imports = [NoDatabase, ReplayModule.forRootAsync({ useFactory: () => options as never })];
    await expect(Test.createTestingModule({ imports }).compile()).rejects.toThrow(words);
  }
  expect(() => ReplayModule.forRootAsync({ http: { path: 'x' } as never, useFactory: () => ({}) })).toThrow(
    /^replay\.http\.guard: /,
  );
});
