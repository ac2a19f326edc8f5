// Moments after which nobody can know from its answer alone what the database did.
import { Injectable } from '@nestjs/common';
import { DataSource } from 'typeorm';
import { ControlPool } from '../../../src/database/index.js';
import { EntityOrderStore } from '../../../src/delivery/index.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import { type InboxBatchContext, InboxBatchHandler, type InboxMessage } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { breakAtCommit } from '../../support/break-at-commit.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';

let database: TestDatabase;
let running: InboxApp | undefined;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('doubt'));
  await database.query('CREATE TABLE effect (note VARCHAR(20) NOT NULL)');
});
afterEach(async () => {
  await running?.close();
  running = undefined;
  await database.query('DELETE FROM inbox_message');
  await database.query('DELETE FROM effect');
});
afterAll(() => database.drop());

test.each<[string, boolean, number]>([
  ['was carried out all the same', true, 1],
  ['was never carried out', false, 2],
])('a commit whose answer is lost and that %s: the effect happens once', async (_what, carriedOut, attempts) => {
  running = await startInboxApp(database, {
    handlers: {
      work: async (message, ctx) => {
        await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [String(message.json.n)]);
        if (message.json.n !== 1 || ctx.attempt > 1) return;
        breakAtCommit(await ctx.manager.queryRunner?.connect(), carriedOut);
      },
    },
  });
  const id = await pushJson(running.inbox, { type: 'work', n: 1 });
  await pushJson(running.inbox, { type: 'work', n: 2 });
  await drainInbox(running.inbox);
  expect(await database.query('SELECT status, attempts FROM inbox_message ORDER BY id')).toEqual([
    { status: 'success', attempts },
    { status: 'success', attempts: 1 },
  ]);
  expect(await database.query('SELECT note FROM effect ORDER BY note')).toEqual([{ note: '1' }, { note: '2' }]);
  // What is told is what happened: no retry of a message that succeeded.
  expect(running.events('succeeded')).toHaveLength(2);
  expect(running.events('retrying').map((event) => event.id)).toEqual(carriedOut ? [] : [id]);
});

test.each<[string, boolean, number]>([
  ['was carried out all the same', true, 1],
  ['was never carried out', false, 2],
])('a batch whose commit has no answer and that %s: its effects happen once', async (_what, carriedOut, attempts) => {
  @Injectable()
  class Batches {
    @InboxBatchHandler('batch', { source: 'test' })
    async handle(messages: readonly InboxMessage[], ctx: InboxBatchContext) {
      for (const { id } of messages) await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [id]);
      if (messages.some((message) => ctx.attemptOf(message) > 1)) return;
      breakAtCommit(await ctx.manager.queryRunner?.connect(), carriedOut);
    }
  }
  running = await startInboxApp(database, { providers: [Batches] });
  const ids = [];
  for (let n = 0; n < 3; n++) ids.push(await pushJson(running.inbox, { type: 'batch', entity: 'e' }));
  await drainInbox(running.inbox);
  expect(await database.query('SELECT status, attempts FROM inbox_message ORDER BY id')).toEqual(
    Array(3).fill({ status: 'success', attempts }),
  );
  expect(await database.query('SELECT note FROM effect ORDER BY note')).toEqual(
    ids.toSorted().map((note) => ({ note })),
  );
  expect(running.events('succeeded')).toHaveLength(3);
  expect(running.events('claim-lost')).toEqual([]);
  expect(running.events('retrying').map((event) => event.id)).toEqual(carriedOut ? [] : ids);
});

test('a follower that steps aside while its head finishes comes back at once', async () => {
  const dataSource = await new DataSource(database.options).initialize();
  const pool = new ControlPool(dataSource, { size: 2 });
  try {
    for (const [status, open] of [
      ['success', null],
      ['pending', '7'],
      ['pending', '7'],
    ]) {
      await database.query(
        "INSERT INTO inbox_message (source, type, body, status, open_entity) VALUES ('test', 'work', '{}', ?, ?)",
        [status, open],
      );
    }
    const [head] = await database.query<{ id: number }>("SELECT id FROM inbox_message WHERE status = 'success'");
    // Read while the head was still open; by now it is finished, and has already looked for followers.
    await new EntityOrderStore(pool, inboxTable()).stepAside('7', String(head?.id));
    expect(await database.query("SELECT COUNT(*) AS n FROM inbox_message WHERE status = 'pending'")).toEqual([
      { n: 2 },
    ]);
  } finally {
    await pool.close();
    await dataSource.destroy();
  }
});
