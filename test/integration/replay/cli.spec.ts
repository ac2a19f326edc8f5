// The command line as a process: what it prints, what it changes and how it ends.

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { waitUntil } from '../../support/wait-until.js';

const script = new URL('../../../dist/src/replay/cli/main.js', import.meta.url);
let database: TestDatabase;
let environment: Record<string, string> = {};

beforeAll(async () => {
  database = await migrated(await createTestDatabase('cli'));
});
afterEach(async () => {
  environment = {};
  for (const table of ['inbox_message', 'inbox_message_archive', 'replay_run', 'replay_item'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

function start(...args: string[]) {
  return startChild(script, { args, env: { DATABASE_URL: database.url, ...environment } });
}

async function run(...args: string[]) {
  const child = start(...args);
  const { code } = await child.ended;
  return {
    code,
    stdout: child.stdout,
    stderr: child.stderr,
    json: () => JSON.parse(child.stdout) as Record<string, unknown>,
  };
}

async function failed(count: number, status = 'failed'): Promise<string[]> {
  for (let n = 0; n < count; n++)
    await database.query(
      `INSERT INTO inbox_message (source, type, body, status, attempts, error_kind, error_message, next_attempt_at, received_at, finished_at)
       VALUES ('shop', 'paid', ?, ?, 4, 'away', CONCAT('the shop', CHAR(27), '[31m is away'), '2026-01-01', '2026-01-01', '2026-01-01')`,
      ['{"phone":"13800138000"}', status],
    );
  const rows = await database.query<{ id: number }>('SELECT id FROM inbox_message ORDER BY id');
  return rows.map(({ id }) => String(id));
}

const states = async () =>
  (await database.query<{ status: string }>('SELECT status FROM inbox_message ORDER BY id')).map(
    ({ status }) => status,
  );

test('failed and show look, and print nothing that steers a terminal', async () => {
  const [id = ''] = await failed(1);
  const list = await run('failed', '--type', 'paid');
  expect(list).toMatchObject({ code: 0, stderr: '' });
  expect(list.stdout).toMatch(/^id +source +type/);
  expect(list.stdout).toContain('the shop?[31m is away');
  expect((await run('failed', '--json')).json()).toMatchObject([{ id, errorKind: 'away' }]);
  expect((await run('show', id, '--json')).json()).toMatchObject({ id, body: '{"phone":"*********00"}' });
  expect(await run('show', '999999')).toMatchObject({ code: 4, stderr: 'mailroom: there is no message 999999\n' });
});

test('replay without --yes shows what it would take and changes nothing', async () => {
  await failed(3);
  const { code, stdout } = await run('replay', '--error-kind', 'away');
  expect(code).toBe(0);
  expect(stdout).toContain('3 messages');
  expect(stdout).toContain('Nothing was changed');
  expect(await states()).toEqual(['failed', 'failed', 'failed']);
  expect(await database.query('SELECT id FROM replay_run')).toEqual([]);
});

test('replay --yes works the run off, also where no application does, with a record', async () => {
  const ids = await failed(3);
  const flags = ['--id', ids[0] ?? '', ids[1] ?? '', '--reason', 'fixed', '--actor', 'ann', '--rate', '1000', '--yes'];
  const done = await run('replay', ...flags, '--json');
  expect(done).toMatchObject({ code: 0 });
  expect(done.json()).toMatchObject({ state: 'done', selected: 2, requeued: 2, actor: 'ann', reason: 'fixed' });
  expect(done.stderr).toContain('2 of 2');
  expect(await states()).toEqual(['pending', 'pending', 'failed']);
  const [recorded] = (await run('runs', '--json')).json() as unknown as { id: string }[];
  expect((await run('runs', recorded?.id ?? '', '--items', '--json')).json()).toMatchObject([
    { messageId: ids[0], outcome: 'requeued' },
    { messageId: ids[1], outcome: 'requeued' },
  ]);
});

test('discard --yes moves into the archive', async () => {
  await failed(2);
  expect((await run('discard', '--all', '--reason', 'test data', '--rate', '1000', '--yes')).code).toBe(0);
  expect(await states()).toEqual([]);
  expect(await database.query('SELECT COUNT(*) AS n FROM inbox_message_archive')).toEqual([{ n: 2 }]);
});

test('overlapping runs, cancel and resume', async () => {
  await failed(3);
  const flags = ['--all', '--reason', 'fixed', '--yes'];
  const first = (await run('replay', ...flags, '--rate', '100', '--detach', '--json')).json() as { id: string };
  expect(first).toMatchObject({ state: 'pending', selected: 3 });
  const second = await run('replay', ...flags);
  expect(second.code).toBe(3);
  expect(second.stderr).toContain(`run ${first.id} has some of these messages`);
  expect((await run('cancel', first.id)).stdout).toContain('Nothing was changed');
  expect((await run('cancel', first.id, '--yes', '--json')).json()).toEqual({ cancelled: true });
  expect((await run('resume', first.id, '--yes', '--json')).json()).toMatchObject({ state: 'done', requeued: 3 });
});

test('a run that is followed ends with 5 when it is cancelled, and an interrupted one can be resumed', async () => {
  await failed(5);
  const child = start('replay', '--all', '--reason', 'fixed', '--rate', '0.1', '--yes', '--json');
  await waitUntil(async () => (await database.query("SELECT id FROM replay_run WHERE state = 'running'")).length > 0, {
    what: 'the run is worked on',
  });
  child.signal('SIGINT');
  expect(await child.ended).toEqual({ code: 5, signal: null });
  const { id, state } = JSON.parse(child.stdout) as { id: string; state: string };
  expect(state).toBe('running');
  await run('cancel', id, '--yes');
  await database.query('UPDATE replay_run SET rate_per_second = 1000');
  expect((await run('resume', id, '--yes', '--json')).json()).toMatchObject({ state: 'done', requeued: 5 });
});

test('edit is off by default, shows the message first, and puts a new one in its place with --yes', async () => {
  const [id = ''] = await failed(1);
  const folder = mkdtempSync(join(tmpdir(), 'mailroom-edit-'));
  try {
    const file = join(folder, 'body.json');
    writeFileSync(file, '{"phone":"1"}');
    const flags = ['edit', id, '--body-file', file, '--reason', 'mended', '--json'];
    expect((await run(...flags)).json()).toMatchObject({ dryRun: true, newBodyBytes: 13, message: { id } });
    expect(await run(...flags, '--yes')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('cannot be edited'),
    });
    expect(await states()).toEqual(['failed']);
    environment = { MAILROOM_EDIT: 'true' };
    const edited = (await run(...flags, '--yes')).json() as { messageId: string };
    expect((await run('show', edited.messageId, '--json')).json()).toMatchObject({
      body: '{"phone":"1"}',
      replayOf: id,
      status: 'pending',
    });
    expect((await run(...flags, '--yes')).code).toBe(4);
    expect((await run('edit', id, '--body-file', join(folder, 'none'))).code).toBe(2);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test('purge takes the statuses that are named, and only with --yes', async () => {
  await failed(2);
  await failed(2, 'success');
  expect((await run('purge', '--success', '1d', '--json')).json()).toEqual({
    dryRun: true,
    wouldPurge: [{ table: 'inbox_message.success', rows: 2, more: false }],
  });
  expect(await states()).toHaveLength(4);
  expect((await run('purge', '--success', '1d', '--archive', '--yes', '--json')).json()).toMatchObject({
    purged: [{ rows: 2 }],
  });
  expect(await states()).toEqual(['failed', 'failed']);
  expect((await run('stats', '--json')).json()).toContainEqual({
    box: 'inbox',
    status: 'failed',
    count: 2,
    more: false,
  });
});

test.each([
  ['no selection', ['replay'], 'selection: it is empty'],
  ['no reason', ['replay', '--all', '--yes'], '--reason: write why'],
  ['an unknown option', ['replay', '--al'], 'unknown option'],
  ['an unknown command', ['rpelay'], 'unknown command'],
  ['a bad status', ['failed', '--status', 'pending'], 'status: write one of'],
  ['a bad rate', ['replay', '--all', '--rate', 'fast'], 'write a number above 0'],
  ['an age that is none', ['purge', '--success', 'old'], '--success: '],
  ['nothing to purge', ['purge', '--yes'], 'name a status and an age'],
  ['a URL of another database', ['failed', '--url', 'postgres://x/y'], '--url: write'],
])('%s ends with 2 and says what to write', async (_what, args, words) => {
  const { code, stderr } = await run(...args);
  expect([code, stderr]).toEqual([2, expect.stringContaining(words)]);
});

test('a database that is not there ends with 1; help ends with 0', async () => {
  expect((await run('failed', '--url', 'mysql://root@127.0.0.1:1/x')).code).toBe(1);
  const help = await run('replay', '--help');
  expect(help).toMatchObject({ code: 0, stderr: '' });
  expect(help.stdout).toContain('--error-contains <text>');
});
