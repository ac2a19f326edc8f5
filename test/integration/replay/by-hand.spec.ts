// docs/ops/replay.sql, run as printed, on the tables of a running application.
import { readFileSync } from 'node:fs';
import { createConnection, type RowDataPacket } from 'mysql2/promise';
import { OutboxModule, PermanentFailureError, ReplayModule, ReplayService } from '../../../src/index.js';
import { entityHash } from '../../../src/message/entity-hash.js';
import { orderUnit } from '../../../src/message/order-unit.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';

const page = readFileSync(new URL('../../../docs/ops/replay.sql', import.meta.url), 'utf8');
let database: TestDatabase;
let app: InboxApp;
let replay: ReplayService;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('by_hand'));
  app = await startInboxApp(database, {
    inbox: {
      sources: {
        'order-center': { type: 'order.paid', dedupKey: ({ json }) => json.id, entityKey: ({ json }) => json.order },
      },
    },
    handlers: {
      'order.paid': [
        { source: 'order-center' },
        () => {
          if (broken) throw new PermanentFailureError('away', { kind: 'shop-away' });
        },
      ],
    },
    imports: [
      ReplayModule.forRoot({ enabled: false }),
      OutboxModule.forRoot({ transports: {}, route: () => 'none', enabled: false }),
    ],
  });
  replay = app.app.get(ReplayService);
});
afterAll(async () => {
  await app.close();
  await database.drop();
});

let broken = true;

/** Runs the part that begins with `heading`; returns what its SELECTs showed. `values` stand in for those of the page. */
async function run(heading: string, values: Readonly<Record<string, number>> = {}): Promise<RowDataPacket[][]> {
  const part = page.split('-- part: ').find((text) => text.startsWith(heading)) ?? '';
  const connection = await createConnection({ uri: database.url, supportBigNumbers: true });
  const shown: RowDataPacket[][] = [];
  try {
    for (const statement of part.slice(part.indexOf('\n')).split(/;\s*$/m)) {
      if (statement.trim() === '') continue;
      const [rows] = await connection.query(
        statement.replace(/@(\w+) = \d+/g, (set, name) => `@${name} = ${values[name] ?? set.split('= ')[1]}`),
      );
      if (Array.isArray(rows)) shown.push(rows as RowDataPacket[]);
    }
  } finally {
    await connection.end();
  }
  return shown;
}

async function push(id: string): Promise<string> {
  const receipt = await app.inbox.receive('order-center', { rawBody: JSON.stringify({ id, order: 'o-1' }) });
  return String((receipt as { id: string }).id);
}

test('the inbox: seen, archived, run again in order, with a record; a second time nothing is left to take', async () => {
  const ids = [await push('a'), await push('b'), await push('c')];
  await drainInbox(app.inbox);
  const [held] = await database.query<{ id: number }>('SELECT MAX(id) AS id FROM inbox_message');
  const other = await replay.start({ ids: [String(held?.id)] }, { actor: 'bob', reason: 'first', ratePerSecond: 0.1 });
  expect((await run('look'))[0]).toMatchObject([{ source: 'order-center', error_kind: 'shop-away', messages: 3 }]);

  const [result] = (await run('replay (the inbox)')).at(-1) ?? [];
  expect(result).toMatchObject({ selected: 2, requeued: 2, skipped: 0 });
  expect(
    await database.query(
      `SELECT CAST(id AS CHAR) AS id, status, attempts, replay_count AS replays, CAST(open_entity AS CHAR) AS open
         FROM inbox_message WHERE status = 'pending' ORDER BY id`,
    ),
  ).toEqual(
    ids.slice(0, 2).map((id) => ({
      id,
      status: 'pending',
      attempts: 0,
      replays: 1,
      open: entityHash('order-center', Buffer.from('o-1')),
    })),
  );
  broken = false;
  await drainInbox(app.inbox);
  const view = await replay.message(ids[0] ?? '');
  expect(view).toMatchObject({
    status: 'success',
    history: [{ reason: 'replay: the shop is back', runId: String(result?.id), attempts: 1, errorKind: 'shop-away' }],
  });
  expect(await replay.get(String(result?.id))).toMatchObject({ state: 'done', actor: 'ann', requeued: 2 });
  expect(await replay.items(String(result?.id))).toMatchObject([{ outcome: 'requeued' }, { outcome: 'requeued' }]);
  expect((await run('replay (the inbox)')).at(-1)).toMatchObject([{ selected: 0, requeued: 0 }]);

  // What is left waits for the other run. One message is taken out.
  await replay.cancel(other.id);
  await run('discard', { id: Number(held?.id) });
  expect(await replay.message(String(held?.id))).toBeNull();
  expect(
    await database.query(
      "SELECT CAST(id AS CHAR) AS id FROM inbox_message_archive WHERE reason = 'discard: a test order'",
    ),
  ).toEqual([{ id: ids[2] }]);
});

test('the outbox: dead messages are due again, in their order units', async () => {
  const units: [string | null, string | null][] = [
    ['k', 'r'],
    ['k', null],
    [null, 'r'],
    [null, null],
  ];
  for (const [n, [key, receiver]] of units.entries())
    await database.query(
      `INSERT INTO outbox_message (message_id, topic, message_key, receiver, payload, status, error_kind, expires_at, next_attempt_at, created_at, sent_at)
       VALUES (?, 'warehouse.reserve', ?, ?, '{}', 'dead', 'broker-away', '2020-01-01', '2020-01-01', '2020-01-01', '2020-01-01')`,
      [`m${n}`, key, receiver],
    );
  const [result] = (await run('replay (the outbox)')).at(-1) ?? [];
  expect(result).toMatchObject({ selected: 4, requeued: 4 });
  expect(
    await database.query(
      `SELECT status, CAST(open_unit AS CHAR) AS unit, expires_at, replay_count AS replays FROM outbox_message ORDER BY id`,
    ),
  ).toEqual(
    units.map(([key, receiver]) => ({
      status: 'pending',
      unit:
        key === null && receiver === null
          ? null
          : orderUnit(key ? Buffer.from(key) : null, receiver ? Buffer.from(receiver) : null),
      expires_at: null,
      replays: 1,
    })),
  );
  expect(await database.query('SELECT COUNT(*) AS n FROM outbox_message_archive')).toEqual([{ n: 4 }]);
});

test('the columns that are archived are all that the tables have', async () => {
  for (const table of ['inbox_message_archive', 'outbox_message_archive']) {
    const columns = await database.query<{ name: string }>(
      `SELECT column_name AS name FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = ? AND column_name <> 'archive_id'`,
      [table],
    );
    const lists = [...page.matchAll(new RegExp(`INSERT INTO ${table} \\(([^)]+)\\)`, 'g'))].map(([, list = '']) =>
      list
        .split(',')
        .map((name) => name.trim())
        .sort(),
    );
    expect(lists.length).toBeGreaterThan(0);
    for (const list of lists) expect(list).toEqual(columns.map(({ name }) => name).sort());
  }
});
