// The reorder window where others interfere: pauses, missing handlers, races, what a process that died left behind.
import { DataSource } from 'typeorm';
import { ControlPool } from '../../../src/database/index.js';
import { ReorderStore } from '../../../src/delivery/index.js';
import type { OpenMessage } from '../../../src/delivery/turn.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';

let database: TestDatabase;
let dataSource: DataSource;
let pool: ControlPool;
let store: ReorderStore;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('reorder_edges'));
  dataSource = await new DataSource(database.options).initialize();
  pool = new ControlPool(dataSource, { size: 2 });
  const rule = { types: new Set(['e', 'f']), windowMs: 10_000 };
  store = new ReorderStore(pool, inboxTable(), () => rule);
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((app) => app.close()));
  for (const table of ['inbox_message', 'mailroom_sequence', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await pool.close();
  await dataSource.destroy();
  await database.drop();
});

async function start(options: InboxAppOptions = {}): Promise<InboxApp> {
  const app = await startInboxApp(database, {
    ...options,
    source: {
      sequence: (push) => push.json.seq,
      reorder: { by: 'sequence', types: ['e', 'f'], window: '10s' },
      ...options.source,
    },
  });
  running.push(app);
  return app;
}

/** `type/sequence`, all of one entity. */
async function push(app: InboxApp, ...names: string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const name of names) {
    const [type, seq] = name.split('/');
    ids.push(await pushJson(app.inbox, { type, name, entity: 'a', seq: Number(seq) }));
  }
  return ids;
}

const elapse = (seconds: number) =>
  database.query(
    `UPDATE inbox_message SET next_attempt_at = next_attempt_at - INTERVAL ? SECOND, received_at = received_at - INTERVAL ? SECOND
      WHERE status IN ('pending', 'held')`,
    [seconds, seconds],
  );
const statuses = async () =>
  (await database.query<{ status: string }>('SELECT status FROM inbox_message ORDER BY id')).map((row) => row.status);
const noting =
  (seen: string[]) =>
  ({ json }: { json: Record<string, unknown> }) => {
    seen.push(String(json.name));
  };

test('one that arrives while a later one is in work is late, however soon its turn comes', async () => {
  const seen: string[] = [];
  const app = await start({
    handlers: {
      e: async ({ json }) => {
        seen.push(String(json.name));
        if (json.seq !== 5) return;
        await push(app, 'e/4', 'e/6');
        await elapse(10);
      },
    },
  });
  await push(app, 'e/5');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(seen).toEqual(['e/5', 'e/4', 'e/6']);
  expect(app.events('late')).toHaveLength(1);
});

test('so is one that arrives then and would be claimed together with the success of the later one', async () => {
  const app = await start({
    inbox: { batchSize: 200 },
    handlers: {
      x: () => undefined,
      e: async ({ json }) => {
        if (json.seq !== 5) return;
        await push(app, 'e/4');
        await elapse(10);
      },
    },
  });
  // Fifty are read ahead: the one that arrives is read while the last of them is in work.
  for (let n = 0; n < 49; n++) await pushJson(app.inbox, { type: 'x' });
  await push(app, 'e/5');
  await elapse(10);
  await app.inbox.runOnce();
  expect(await statuses()).toEqual(Array.from({ length: 51 }, () => 'success'));
  expect(app.events('late')).toHaveLength(1);
});

test('late is measured against the highest that succeeded, not against the last', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen) } });
  for (const name of ['e/5', 'e/3', 'e/4', 'e/5', 'e/6']) {
    await push(app, name);
    await elapse(10);
    await drainInbox(app.inbox);
  }
  expect(seen).toEqual(['e/5', 'e/3', 'e/4', 'e/5', 'e/6']);
  expect(app.events('late')).toHaveLength(2);
});

test('a late message that fails for good is counted too', async () => {
  const app = await start({
    inbox: { maxRetry: 0 },
    handlers: { e: ({ json }) => (json.seq === 1 ? Promise.reject(new Error('no')) : undefined) },
  });
  await push(app, 'e/2');
  await elapse(10);
  await drainInbox(app.inbox);
  await push(app, 'e/1');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(app.events('failed')).toHaveLength(1);
  expect(app.events('late')).toHaveLength(1);
});

test('a success without a transaction is remembered too', async () => {
  const app = await start({ handlers: { e: [{ transactional: false }, () => undefined] } });
  await push(app, 'e/2');
  await elapse(10);
  await drainInbox(app.inbox);
  await push(app, 'e/1');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(app.events('late')).toHaveLength(1);
});

test('a message behind one whose type is paused steps aside, and comes after it when it is resumed', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen), f: noting(seen) } });
  await push(app, 'e/5', 'f/4', 'e/3');
  await elapse(10);
  app.inbox.pause({ type: 'f' });
  await drainInbox(app.inbox);
  expect(seen).toEqual(['e/3']);
  expect(await statuses()).toEqual(['held', 'pending', 'success']);
  app.inbox.resume();
  await drainInbox(app.inbox);
  expect(seen).toEqual(['e/3', 'f/4', 'e/5']);
});

test('a message behind one that no handler here knows waits for it, and the round comes to its end', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen) } });
  await push(app, 'e/5');
  await elapse(5);
  await push(app, 'f/4');
  await elapse(5);
  await drainInbox(app.inbox);
  expect(seen).toEqual([]);
  expect(await statuses()).toEqual(['held', 'pending']);
  await app.close();
  running.length = 0;

  const other = await start({ handlers: { e: noting(seen), f: noting(seen) } });
  await database.query("UPDATE inbox_message SET next_attempt_at = UTC_TIMESTAMP(3) WHERE type = 'f'");
  await drainInbox(other.inbox);
  expect(seen).toEqual(['f/4', 'e/5']);
});

test("with onFailure 'park' the entity stays closed, also to those that belong before the failed one", async () => {
  const seen: string[] = [];
  const app = await start({
    inbox: { maxRetry: 0 },
    source: { onFailure: 'park' },
    handlers: {
      e: (message) => {
        noting(seen)(message);
        if (message.json.seq === 5) throw new Error('no');
      },
    },
  });
  await push(app, 'e/5', 'e/6');
  await elapse(10);
  await drainInbox(app.inbox);
  await push(app, 'e/4');
  await elapse(10);
  await drainInbox(app.inbox);
  expect(seen).toEqual(['e/5']);
  await app.inbox.releaseEntity('test', 'a');
  await drainInbox(app.inbox);
  expect(seen).toEqual(['e/5', 'e/4', 'e/6']);
});

test('an entity of which everything is aside, left by a process that died, is put in order again by recovery', async () => {
  const seen: string[] = [];
  const app = await start({ handlers: { e: noting(seen) } });
  await push(app, 'e/3', 'e/1', 'e/2');
  await elapse(10);
  await database.query("UPDATE inbox_message SET status = 'held'");
  await drainInbox(app.inbox);
  expect(seen).toEqual([]);
  await app.inbox.recoverOnce();
  await drainInbox(app.inbox);
  expect(seen).toEqual(['e/1', 'e/2', 'e/3']);
});

test('the one whose turn it is comes back by recovery, though an older one waits for its retry', async () => {
  const seen: string[] = [];
  const app = await start({
    inbox: { backoff: ['1h'] },
    handlers: {
      e: (message, ctx) => {
        noting(seen)(message);
        if (message.json.seq === 5 && ctx.attempt === 1) throw new Error('not yet');
      },
    },
  });
  await push(app, 'e/5');
  await elapse(10);
  await drainInbox(app.inbox);
  const [four] = await push(app, 'e/4');
  await elapse(10);
  await database.query("UPDATE inbox_message SET status = 'held' WHERE id = ?", [four]);
  await app.inbox.recoverOnce();
  await drainInbox(app.inbox);
  expect(seen).toEqual(['e/5', 'e/4']);
});

test('why() names the message that has to be handled before', async () => {
  const app = await start({ handlers: { e: () => undefined } });
  const [five, four] = await push(app, 'e/5', 'e/4');
  expect(await app.inbox.why(five ?? '')).toMatchObject({
    code: 'behind',
    text: expect.stringContaining(`message ${four}`),
  });
  expect(await app.inbox.why(four ?? '')).toMatchObject({ code: 'later' });
});

describe('the statements', () => {
  const row = async (id: string | undefined): Promise<OpenMessage & { open: string }> => {
    const [found] = await database.query<OpenMessage & { open: string }>(
      `SELECT CAST(id AS CHAR) AS id, source, type, lane, CAST(sequence AS CHAR) AS sequence, status, '1' AS is_due,
              '1' AS in_window, CAST(open_entity AS CHAR) AS open FROM inbox_message WHERE id = ?`,
      [id],
    );
    if (!found) throw new Error('no such message');
    return found;
  };
  const dated = (message: OpenMessage & { open: string }) => ({ ...message, due: '2026-01-01 00:00:00.000' });
  const rows = () =>
    database.query('SELECT status, CAST(next_attempt_at AS CHAR) AS due FROM inbox_message ORDER BY id');

  test('nothing is brought forward that is in work, finished, or waits for its retry by now', async () => {
    const app = await start();
    const [last, ...ids] = await push(app, 'e/9', 'e/1', 'e/2', 'e/3', 'e/4');
    const seen = await Promise.all(ids.map(row));
    const past = 'next_attempt_at = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND';
    const states = [
      `status = 'processing', attempts = 1, ${past}`,
      `status = 'success', attempts = 1, ${past}`,
      'attempts = 1, next_attempt_at = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR',
    ];
    for (const [n, state] of states.entries())
      await database.query(`UPDATE inbox_message SET ${state} WHERE id = ?`, [ids[n]]);
    const earlier = await rows();
    await store.bringForward(seen, dated(await row(last)));
    const later = await rows();
    expect(later.slice(0, 4)).toEqual(earlier.slice(0, 4));
    expect(later[4]).toEqual({ status: 'pending', due: '2025-12-31 23:59:59.999' });
  });

  test('those brought forward fall due one after the other, in the order given', async () => {
    const app = await start();
    const [last, ...ids] = await push(app, 'e/9', 'e/3', 'e/1', 'e/2');
    const [three, one, two] = await Promise.all(ids.map(row));
    if (!one || !two || !three) throw new Error('no such message');
    await database.query("UPDATE inbox_message SET status = 'held' WHERE id = ?", [two.id]);
    await store.bringForward([one, two, three], dated(await row(last)));
    expect((await rows()).slice(1)).toEqual([
      { status: 'pending', due: '2025-12-31 23:59:59.999' },
      { status: 'pending', due: '2025-12-31 23:59:59.997' },
      { status: 'pending', due: '2025-12-31 23:59:59.998' },
    ]);
  });

  test('who steps aside for one that was finished meanwhile comes back', async () => {
    const app = await start();
    const [five, four] = await push(app, 'e/5', 'e/4', 'e/6');
    const head = await row(four);
    await database.query("UPDATE inbox_message SET status = 'success', open_entity = NULL WHERE id = ?", [four]);
    await store.stepAside(dated(await row(five)), 'later ones', head);
    expect(await statuses()).toEqual(['pending', 'success', 'pending']);
  });

  test('an entity without a success for a day is forgotten, five hundred at a time', async () => {
    await store.remember(
      (sql, values) => pool.execute(sql, values),
      [{ open: '18446744073709551615', sequence: '1', late: false }],
    );
    await database.query(
      `INSERT INTO mailroom_sequence (open_entity, sequence, handled_at)
       SELECT ${Array.from({ length: 3 }, (_, n) => `d${n}.d * ${10 ** n}`).join(' + ')}, 1, UTC_TIMESTAMP(3) - INTERVAL 25 HOUR
         FROM ${Array.from({ length: 3 }, (_, n) => `(${Array.from({ length: 10 }, (_, d) => `SELECT ${d} AS d`).join(' UNION ALL ')}) d${n}`).join(', ')}`,
    );
    const left = async () => (await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM mailroom_sequence'))[0]?.n;
    await store.sweep();
    expect(await left()).toBe(501);
    // One of those that are swept next succeeds between the look and the delete.
    const [next] = await database.query<{ open: string }>(
      'SELECT CAST(open_entity AS CHAR) AS open FROM mailroom_sequence ORDER BY handled_at LIMIT 1',
    );
    const { rows } = pool;
    pool.rows = async (sql, values) => {
      const found = await rows.call(pool, sql, values);
      await database.query('UPDATE mailroom_sequence SET handled_at = UTC_TIMESTAMP(3) WHERE open_entity = ?', [
        next?.open,
      ]);
      return found as never;
    };
    await store.sweep();
    pool.rows = rows;
    await store.sweep();
    const kept = await database.query<{ open: string }>(
      'SELECT CAST(open_entity AS CHAR) AS open FROM mailroom_sequence ORDER BY open_entity',
    );
    expect(kept.map(({ open }) => open)).toEqual([next?.open, '18446744073709551615']);
  });
});
