// `mailroom migrate` as a process: what it prints, what it changes and how it ends; and many of them at once.
import { startChild } from '../../support/child.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { createMessageLog, logTable, oldInsert } from '../../support/message-log.js';

const script = new URL('../../../dist/src/replay/cli/main.js', import.meta.url);
const adopted = ['--inbox-table', JSON.stringify(logTable)] as const;
let database: TestDatabase;

beforeEach(async () => {
  database = await createTestDatabase('migrate_cli');
});
afterEach(() => database.drop());

async function run(...args: string[]) {
  const child = startChild(script, { args: ['migrate', ...args], env: { DATABASE_URL: database.url } });
  const { code } = await child.ended;
  return { code, stdout: child.stdout, stderr: child.stderr };
}

test('an empty database: check fails with 6, up shows, then does, and check is content', async () => {
  expect(await run('check')).toMatchObject({
    code: 6,
    stderr: expect.stringContaining('there is no table inbox_message'),
  });
  expect((await run('status', '--json')).stdout).toContain('"version":null');
  const dry = await run('up');
  expect(dry).toMatchObject({ code: 0, stderr: '' });
  expect(dry.stdout).toContain('CREATE TABLE IF NOT EXISTS inbox_message');
  expect(dry.stdout).toContain('Nothing was changed. Add --yes to do it.');
  expect(await run('up', '--yes')).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Done: CreateMailroomTables'),
  });
  expect(await run('up', '--yes')).toMatchObject({ code: 0, stdout: 'Everything was done before.\n' });
  expect(await run('check')).toMatchObject({ code: 0, stdout: 'The tables fit: version 1.\n' });
});

test('its SQL, run by hand, gives what up gives', async () => {
  const { stdout } = await run('sql');
  for (const statement of stdout.split(/;\n/)) if (statement.trim() !== '') await database.query(statement);
  expect(await run('check')).toMatchObject({ code: 0 });
});

test('an adoption phase by phase, and back', async () => {
  await database.query(createMessageLog);
  await database.query(oldInsert, ['history']);
  await run('up', '--yes');
  expect(await run('check', ...adopted)).toMatchObject({
    code: 6,
    stderr: expect.stringContaining('message_log has no column source'),
  });
  expect((await run('status', '--json', ...adopted)).stdout).toMatch(/"phase1":"missing source,.*"phase2":"not yet"/);
  const shown = await run('sql', '--phase', '1', ...adopted);
  expect(shown.stdout).toContain(
    "ADD COLUMN `mailroom_status` VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT 'success'",
  );
  expect(shown.stdout).not.toContain('ADD COLUMN `msgStr`');
  expect(await run('up', '--phase', '2', '--yes', ...adopted)).toMatchObject({
    code: 6,
    stderr: expect.stringContaining('phase 1 of message_log is not complete'),
  });
  const first = await run('up', '--phase', '1', '--yes', ...adopted);
  expect(first).toMatchObject({ code: 0 });
  expect((await run('sql', '--phase', '2', ...adopted)).stdout).toBe(
    "ALTER TABLE `message_log` ALTER COLUMN `mailroom_status` SET DEFAULT 'pending', ALGORITHM=INSTANT;\n",
  );
  expect(await run('up', '--phase', '2', '--yes', ...adopted)).toMatchObject({
    code: 0,
    stderr: expect.stringContaining('done in'),
  });
  expect((await run('status', '--json', ...adopted)).stdout).toMatch(/"phase1":"complete","phase2":"complete"/);
  expect(await run('down', '--phase', '1', '--yes', ...adopted)).toMatchObject({ code: 1 });
  for (const phase of ['2', '1'])
    expect(await run('down', '--phase', phase, '--yes', ...adopted)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('Done:'),
    });
  expect(await database.query('SELECT * FROM message_log')).toMatchObject([{ msgStr: 'history', status: 1 }]);
  expect(await database.query('SELECT name FROM migrations')).toHaveLength(1);
});

test('wrong use ends with 2 and says what to write', async () => {
  expect(await run('up', '--phase', '3')).toMatchObject({ code: 2, stderr: expect.stringContaining('write 1 or 2') });
  expect(await run('sql', '--phase', '1')).toMatchObject({ code: 2, stderr: expect.stringContaining('--inbox-table') });
  expect(await run('down', '--yes')).toMatchObject({ code: 2, stderr: expect.stringContaining('--phase') });
  expect(await run('sideways')).toMatchObject({ code: 2 });
  const bad = await run('status', '--inbox-table', '{"name":"x","columns":{"nothing":"y"}}');
  expect(bad).toMatchObject({ code: 2, stderr: expect.stringContaining('inboxTable.columns') });
});

test('its tables alone can be adopted by ten processes at once: one migrates, all are content', async () => {
  await database.query(createMessageLog);
  const ended = await Promise.all(Array.from({ length: 10 }, () => run('up', '--phase', '1', '--yes', ...adopted)));
  expect(ended.map(({ code }) => code)).toEqual(Array(10).fill(0));
  expect(ended.filter(({ stdout }) => stdout.startsWith('Done:'))).toHaveLength(1);
  const names = await database.query<{ name: string }>('SELECT name FROM migrations ORDER BY id');
  expect(names.map(({ name }) => name)).toEqual(['CreateMailroomTables1764547200000', 'AdoptMessageLog1764547200001']);
  expect(await run('check', ...adopted)).toMatchObject({ code: 0 });
});
