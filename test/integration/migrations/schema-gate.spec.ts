// The check of the tables at the start of an application, on a real server.
import { jest } from '@jest/globals';
import { Logger } from '@nestjs/common';
import { ControlPool, inboxNeed, outboxNeed, schemaProblems, sharedNeeds } from '../../../src/database/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { startInboxApp } from '../../support/inbox-app.js';
import { adoption, databaseWithLog, logTable, migrate } from '../../support/message-log.js';
import { startOutboxApp } from '../../support/outbox-app.js';

let database: TestDatabase;

beforeEach(async () => {
  database = await migrated(await createTestDatabase('schema_gate'));
});
afterEach(() => database.drop());

/** Starts an application and closes it; the warnings of its inbox. */
async function start(options: Parameters<typeof startInboxApp>[1] = {}): Promise<string[]> {
  const warn = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  try {
    await (await startInboxApp(database, options)).close();
    return warn.mock.calls.map(([message]) => String(message));
  } finally {
    warn.mockRestore();
  }
}

test('it needs exactly the columns and indexes that the migrations make', async () => {
  const pool = new ControlPool({ options: database.options }, { size: 1 });
  const needs = [inboxNeed, outboxNeed, ...Object.values(sharedNeeds)];
  try {
    expect(await schemaProblems(pool, needs)).toEqual([]);
  } finally {
    await pool.close();
  }
  for (const { table, columns, indexes } of needs) {
    const found = await database.query<{ c: string }>(
      'SELECT column_name AS c FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = ?',
      [table],
    );
    expect({ table, columns: Object.keys(columns).sort() }).toEqual({ table, columns: found.map(({ c }) => c).sort() });
    const keys = await database.query<{ k: string }>(
      'SELECT DISTINCT index_name AS k FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = ?',
      [table],
    );
    expect({ table, indexes: Object.keys(indexes).sort() }).toEqual({ table, indexes: keys.map(({ k }) => k).sort() });
  }
});

test.each([
  ['DROP TABLE mailroom_lease', 'there is no table mailroom_lease'],
  ['ALTER TABLE inbox_message DROP COLUMN replay_of', 'inbox_message has no column replay_of'],
  [
    'ALTER TABLE inbox_message MODIFY next_attempt_at DATETIME NOT NULL',
    'inbox_message.next_attempt_at is datetime and should be datetime(3)',
  ],
  [
    'ALTER TABLE inbox_message DROP KEY inbox_claim',
    'inbox_message has no index inbox_claim (status, lane, next_attempt_at, id)',
  ],
  [
    'ALTER TABLE inbox_message DROP KEY inbox_entity, ADD KEY inbox_entity (open_entity)',
    'the index inbox_entity of inbox_message is on (open_entity) and should be on (open_entity, id)',
  ],
  [
    'ALTER TABLE inbox_message DROP KEY inbox_dedup, ADD KEY inbox_dedup (source, dedup_key)',
    'the index inbox_dedup of inbox_message is not unique: a message that is pushed twice would be stored twice',
  ],
  [
    'ALTER TABLE inbox_message DROP KEY inbox_dedup, ADD UNIQUE KEY inbox_dedup (source, dedup_key(10))',
    'the index inbox_dedup of inbox_message is on (source, dedup_key(10)) and should be on (source, dedup_key)',
  ],
  [
    'ALTER TABLE inbox_message ADD COLUMN own INT NOT NULL',
    'inbox_message.own is NOT NULL without a default, and nothing of mailroom gives it a value',
  ],
  ["DELETE FROM mailroom_setting WHERE name = 'schema_version'", 'the schema has version none, and 1 is needed'],
])('the inbox refuses to start after %s', async (sql, problem) => {
  await database.query(sql);
  await expect(start()).rejects.toMatchObject({ code: 'MAILROOM_SCHEMA_MISMATCH', problems: [problem] });
  await expect(start()).rejects.toThrow('npx mailroom migrate up --yes');
});

test('the outbox refuses to start without its index', async () => {
  await database.query('ALTER TABLE outbox_message DROP KEY outbox_unit');
  await expect(startOutboxApp(database)).rejects.toThrow('outbox_message has no index outbox_unit (open_unit, id)');
});

test('a newer schema is told and does not stop the start', async () => {
  await database.query("UPDATE mailroom_setting SET value = '2' WHERE name = 'schema_version'");
  expect(await start()).toContainEqual(expect.stringContaining("version 2, newer than this release's 1"));
});

describe('an adopted table', () => {
  beforeEach(async () => {
    await database.drop();
    database = await databaseWithLog('schema_gate_adopted');
  });
  const enabled = { handlers: { order: () => undefined }, inbox: { table: logTable, enabled: true } };

  test('is refused before phase 1, named in the remedy', async () => {
    await expect(start(enabled)).rejects.toThrow(
      /message_log has no column source.* and phase 1 of adoptTable\(\{ table: 'message_log'/,
    );
  });

  test('is used after phase 1, with a warning while it is consumed and its default is success', async () => {
    const { phase1, phase2 } = adoption();
    await migrate(database, (runner) => new phase1().up(runner));
    const warning = expect.stringContaining('rows that others insert into message_log count as handled');
    expect(await start(enabled)).toContainEqual(warning);
    expect(await start({ inbox: { table: logTable, enabled: false } })).not.toContainEqual(warning);
    await migrate(database, (runner) => new phase2().up(runner));
    expect(await start(enabled)).not.toContainEqual(warning);
  });

  test.each([
    ['MODIFY createTime DATE NULL', /message_log.createTime is date and should be datetime or timestamp/],
    ['MODIFY msgStr INT NOT NULL DEFAULT 0', /message_log.msgStr is int.* and should be /],
    ['MODIFY msgType VARCHAR(50) NOT NULL', /message_log.msgType is NOT NULL without a default/],
  ])('that was changed after phase 1 is refused: %s', async (change, words) => {
    const { phase1 } = adoption();
    await migrate(database, (runner) => new phase1().up(runner));
    await database.query('DELETE FROM message_log');
    await database.query(`ALTER TABLE message_log ${change}`);
    await expect(start(enabled)).rejects.toThrow(words);
  });

  test('with other names than the migration had is refused', async () => {
    const { phase1 } = adoption();
    await migrate(database, (runner) => new phase1().up(runner));
    const inbox = { table: { name: 'message_log', columns: { ...logTable.columns, body: 'msgText' } } };
    await expect(start({ inbox })).rejects.toThrow('message_log has no column msgText');
  });
});
