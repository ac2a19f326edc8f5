// adoptTable on a real server: a log table with history becomes the inbox in two phases, and goes back.
import { drainInbox } from '../../../src/testing/index.js';
import type { TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { adoption, databaseWithLog, logTable, migrate, oldInsert } from '../../support/message-log.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeEach(async () => {
  database = await databaseWithLog('adopt');
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  await database.drop();
  delete process.env.MAILROOM_FORCE_DOWN;
});

const { phase1, phase2 } = adoption({ defaults: { source: 'test', type: 'order' } });
const up = async (...phases: (typeof phase1)[]) => {
  for (const Phase of phases) await migrate(database, (runner) => new Phase().up(runner));
};
const down = (Phase: typeof phase1) => migrate(database, (runner) => new Phase().down(runner));
const statuses = async () =>
  (await database.query<{ s: string }>('SELECT mailroom_status AS s FROM message_log ORDER BY id')).map(({ s }) => s);
const columns = async () =>
  (
    await database.query<{ c: string }>(
      "SELECT column_name AS c FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'message_log' ORDER BY ordinal_position",
    )
  ).map(({ c }) => c);

async function start(seen: string[] = []): Promise<InboxApp> {
  const app = await startInboxApp(database, {
    inbox: { table: logTable },
    handlers: { order: (message) => void seen.push(message.body.toString()) },
  });
  running.push(app);
  return app;
}

test('history and what old code inserts is never consumed; pushes are, and after phase 2 plain rows too', async () => {
  await up(phase1);
  await database.query(oldInsert, ['{"type":"order","n":"old code"}']);
  const seen: string[] = [];
  const app = await start(seen);
  const id = await pushJson(app.inbox, { type: 'order', n: 'pushed', text: 'Grüße 你好' });
  await drainInbox(app.inbox);
  expect(seen).toEqual(['{"type":"order","n":"pushed","text":"Grüße 你好"}']);
  expect(await statuses()).toEqual(Array(5).fill('success'));
  const [row] = await database.query('SELECT id, attempts, createTime FROM message_log ORDER BY id DESC LIMIT 1');
  expect(row).toMatchObject({ id: Number(id), attempts: 1 });

  await up(phase2);
  await database.query(oldInsert, ['{"n":"plain"}']);
  await drainInbox(app.inbox);
  expect(seen.slice(1)).toEqual(['{"n":"plain"}']);
  expect(await statuses()).toEqual(Array(6).fill('success'));
});

test('phase 1 alone changes no row, and each phase goes back to what was there', async () => {
  const before = await columns();
  await up(phase1);
  expect(await columns()).toHaveLength(before.length + 21);
  await up(phase1);
  await up(phase2);
  await up(phase2);
  await expect(down(phase1)).rejects.toThrow('phase 2 of message_log is in force: revert it first');
  await down(phase2);
  await down(phase2);
  await database.query(oldInsert, ['after the way back']);
  expect((await statuses()).at(-1)).toBe('success');
  await down(phase1);
  expect(await columns()).toEqual(before);
  expect(await database.query('SELECT COUNT(*) AS n FROM message_log')).toEqual([{ n: 4 }]);
  const keys = await database.query(
    "SELECT DISTINCT index_name AS name FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = 'message_log' ORDER BY 1",
  );
  expect(keys).toEqual([{ name: 'byTime' }, { name: 'PRIMARY' }]);
});

const forced = async (Phase: typeof phase1) => {
  process.env.MAILROOM_FORCE_DOWN = 'true';
  await down(Phase);
};

test('the way back is refused while messages are not finished; forced, nothing of them is lost', async () => {
  await up(phase1, phase2);
  const app = await start();
  const id = await pushJson(app.inbox, { type: 'nobody', n: 'waits' });
  await expect(down(phase2)).rejects.toThrow('message_log has 1 messages that are not finished');
  await forced(phase2);
  expect((await statuses()).at(-1)).toBe('pending');
  delete process.env.MAILROOM_FORCE_DOWN;
  await expect(down(phase1)).rejects.toThrow('message_log has 1 messages that are not finished');
  await app.close();
  running.splice(0);
  await forced(phase1);
  expect(await database.query('SELECT id, msgStr FROM message_log ORDER BY id DESC LIMIT 1')).toEqual([
    { id: Number(id), msgStr: '{"type":"nobody","n":"waits"}' },
  ]);
  expect(
    await database.query(
      'SELECT id, source, type, status, CONVERT(body USING utf8mb4) AS body, reason FROM inbox_message_archive',
    ),
  ).toEqual([
    {
      id: Number(id),
      source: 'test',
      type: 'nobody',
      status: 'pending',
      body: '{"type":"nobody","n":"waits"}',
      reason: 'adoption of message_log was taken back',
    },
  ]);
});

test('bodies in a column of ours are kept when it goes', async () => {
  const own = adoption({ columns: { status: 'mailroom_status' } });
  await database.query('ALTER TABLE message_log MODIFY msgStr TEXT CHARACTER SET utf8mb3 NULL');
  await migrate(database, (runner) => new own.phase1().up(runner));
  const app = await startInboxApp(database, {
    inbox: { table: { name: 'message_log', columns: { status: 'mailroom_status' } } },
    handlers: { order: () => undefined },
  });
  running.push(app);
  await pushJson(app.inbox, { type: 'order', n: 'with 😀' });
  await drainInbox(app.inbox);
  await migrate(database, (runner) => new own.phase1().down(runner));
  expect(await database.query('SELECT status, CONVERT(body USING utf8mb4) AS body FROM inbox_message_archive')).toEqual(
    [{ status: 'success', body: '{"type":"order","n":"with 😀"}' }],
  );
});

test('phase 2 is refused before phase 1, and right after it in the same process', async () => {
  await expect(up(phase2)).rejects.toThrow('phase 1 of message_log is not complete');
  await expect(
    migrate(database, async (runner) => {
      await new phase1().up(runner);
      await new phase2().up(runner);
    }),
  ).rejects.toThrow('phase 1 of message_log was run a moment ago by this process');
  await up(phase2);
});

test.each([
  [
    'a column of its own with our name',
    'ADD type INT NULL',
    /has a column type of its own.*columns: \{ type: 'mailroom_type' \}.*columns: \{ type: 'type' \}/,
  ],
  ['a body in another charset', 'MODIFY msgStr TEXT CHARACTER SET latin1 NOT NULL', /keeps its text in latin1/],
  ['a body that is a number', 'MODIFY msgStr INT NOT NULL DEFAULT 0', /msgStr is int.* which cannot be the body/],
  ['partitions', 'PARTITION BY HASH (id) PARTITIONS 4', /message_log is partitioned/],
  ['another engine', 'ENGINE=MyISAM', /ALTER TABLE message_log ENGINE=InnoDB/],
  ['an index with our name', 'ADD KEY inbox_claim (createTime)', /another index named inbox_claim: rename it/],
])('a table with %s is refused with what to do', async (_what, change, words) => {
  await database.query('DELETE FROM message_log');
  await database.query(`ALTER TABLE message_log ${change}`);
  const before = await columns();
  await expect(up(phase1)).rejects.toThrow(words);
  expect(await columns()).toEqual(before);
});

test('a table whose definition was changed in an instant as often as MySQL can remember is rebuilt beside its writers', async () => {
  const lines: string[] = [];
  const isFull = async () => {
    for (let n = 0; n < 300; n++)
      try {
        await database.query(`ALTER TABLE message_log ADD COLUMN v${n} INT NULL, ALGORITHM=INSTANT`);
        await database.query(`ALTER TABLE message_log DROP COLUMN v${n}, ALGORITHM=INSTANT`);
      } catch (error) {
        expect(error).toMatchObject({ errno: 4092 });
        return true;
      }
    return false;
  };
  // MariaDB has no such limit.
  if (database.flavour === 'mysql') expect(await isFull()).toBe(true);
  const { phase1: patient } = adoption({ log: (line) => void lines.push(line) });
  await up(patient);
  const way = database.flavour === 'mysql' ? 'ALGORITHM=INPLACE, LOCK=NONE' : 'ALGORITHM=INSTANT';
  expect(lines).toContainEqual(expect.stringMatching(new RegExp(`ADD COLUMN[\\s\\S]*${way} \\(`)));
  expect(await statuses()).toEqual(Array(3).fill('success'));
}, 180_000);

test('a table without a simple primary key, and one that is not there, are refused', async () => {
  await database.query('ALTER TABLE message_log DROP PRIMARY KEY, ADD KEY (id), ADD PRIMARY KEY (id, createTime)');
  await expect(up(phase1)).rejects.toThrow('the primary key of message_log has to be one AUTO_INCREMENT column');
  await database.query('DROP TABLE message_log');
  await expect(up(phase1)).rejects.toThrow('there is no table message_log');
});

test('whatever statement it fails after, the next run finishes the work, in both directions', async () => {
  const failsAfter = (done: number) => {
    let left = done;
    return (Phase: typeof phase1, way: 'up' | 'down') =>
      migrate(database, async (runner) => {
        const query = runner.query.bind(runner);
        runner.query = (async (sql: string, values?: unknown[]) => {
          if (!sql.startsWith('ALTER TABLE')) return query(sql, values);
          if (left-- <= 0) throw new Error('injected');
          return query(sql, values);
        }) as typeof runner.query;
        await new Phase()[way](runner);
      });
  };
  const steps: [typeof phase1, 'up' | 'down', number][] = [
    [phase1, 'up', 4],
    [phase2, 'up', 1],
    [phase2, 'down', 1],
    [phase1, 'down', 4],
  ];
  for (const [Phase, way, statements] of steps) {
    // Each run gets one statement further than the one before it.
    for (let n = 0; n < statements; n++) {
      await expect(failsAfter(n === 0 ? 0 : 1)(Phase, way)).rejects.toThrow('injected');
      if (Phase === phase1) await database.query(oldInsert, ['in between']);
    }
    await failsAfter(99)(Phase, way);
  }
  expect(await columns()).toEqual(['id', 'msgStr', 'msgType', 'status', 'createTime']);
});

test('a transaction that keeps the table is waited for a second at a time, and others pass meanwhile', async () => {
  const lines: string[] = [];
  const patient = adoption({ log: (line) => void lines.push(line) });
  const holder = await migrate(database, async (runner) => {
    await runner.startTransaction();
    await runner.query('SELECT COUNT(*) FROM message_log');
    const adopting = migrate(database, (other) => new patient.phase1().up(other));
    await waitUntil(() => lines.some((line) => line.includes('somebody has the table')), { what: 'it gives way' });
    await database.query(oldInsert, ['passes']);
    await runner.commitTransaction();
    return adopting;
  });
  expect(holder).toBeUndefined();
  expect(lines.filter((line) => line.includes('done in'))).toHaveLength(4);
});

test('one that keeps it for longer than the patience is told about', async () => {
  const hasty = adoption({ lockPatienceMs: 0 });
  await migrate(database, async (runner) => {
    await runner.startTransaction();
    await runner.query('SELECT COUNT(*) FROM message_log');
    await expect(migrate(database, (other) => new hasty.phase1().up(other))).rejects.toThrow(
      'transactions have kept message_log for 0 s. End the longest of them',
    );
    await runner.rollbackTransaction();
  });
});

test('what does not fit a column of yours is answered 400 and not stored; the others are', async () => {
  await up(phase1);
  const app = await start();
  await expect(pushJson(app.inbox, { type: 'order', n: 'with 😀' })).rejects.toMatchObject({ statusCode: 400 });
  await expect(pushJson(app.inbox, { type: 'order', n: 'x'.repeat(70_000) })).rejects.toMatchObject({
    statusCode: 400,
  });
  await pushJson(app.inbox, { type: 'order', n: 'ß' });
  expect((await statuses()).slice(3)).toEqual(['pending']);
});
