// `mailroom migrate` where a phase is not the next one, and indexes of an adopted table that only look like ours.
import { startChild } from '../../support/child.js';
import type { TestDatabase } from '../../support/database.js';
import { adoption, databaseWithLog, logTable, migrate } from '../../support/message-log.js';

const script = new URL('../../../dist/src/replay/cli/main.js', import.meta.url);

let database: TestDatabase;
beforeEach(async () => {
  database = await databaseWithLog('out_of_order');
});
afterEach(() => database.drop());

const definition = async () =>
  (await database.query<Record<string, string>>('SHOW CREATE TABLE message_log'))[0]?.['Create Table'];

test('phase 2 before phase 1 is refused with 6, and the table is not touched', async () => {
  const before = await definition();
  const child = startChild(script, {
    args: ['migrate', 'up', '--phase', '2', '--yes', '--inbox-table', JSON.stringify(logTable)],
    env: { DATABASE_URL: database.url },
  });
  expect((await child.ended).code).toBe(6);
  expect(child.stderr).toContain('phase 1 of message_log is not complete');
  expect(await definition()).toBe(before);
});

test('an index of our name that is not unique is no part of phase 1', async () => {
  const { phase1, phase2 } = adoption();
  await migrate(database, (runner) => new phase1().up(runner));
  await database.query('ALTER TABLE message_log DROP KEY inbox_dedup, ADD KEY inbox_dedup (source, dedup_key)');
  await expect(migrate(database, (runner) => new phase2().up(runner))).rejects.toThrow('inbox_dedup missing');
  await expect(migrate(database, (runner) => new phase1().up(runner))).rejects.toThrow(
    'message_log has another index named inbox_dedup',
  );
});
