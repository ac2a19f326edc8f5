// The reorder window with several lanes and instances, and in entities with a long queue. On the configured server.
import { DataSource } from 'typeorm';
import { ControlPool, type Row } from '../../../src/database/index.js';
import { EntityOrderStore, ReorderStore } from '../../../src/delivery/index.js';
import { inboxTable } from '../../../src/inbox/inbox-table.js';
import type { InboxOptions } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('reorder_fleet'));
  await database.query(
    'CREATE TABLE applied (id BIGINT AUTO_INCREMENT PRIMARY KEY, entity VARCHAR(20), seq INT, instance VARCHAR(10))',
  );
});
afterEach(async () => {
  await Promise.all(running.splice(0).map((app) => app.close()));
  for (const table of ['inbox_message', 'applied', 'mailroom_sequence', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

/** Messages in work by entity, over all instances of this process. */
const inWork = new Map<string, number>();
const sideBySide: string[] = [];

interface Step {
  readonly entity: string;
  readonly seq: number;
}

async function start(name: string, inbox: Partial<InboxOptions>, fails: (step: Step) => boolean = () => false) {
  const app = await startInboxApp(database, {
    inbox: { tick: 50, roundInterval: 100, recoveryInterval: 500, maxRetry: 20, backoff: [10], ...inbox },
    source: {
      split: (push) => push.json,
      type: 'step',
      dedupKey: (_push, item) => `${item.entity}-${item.seq}`,
      entityKey: (_push, item) => item.entity,
      sequence: (_push, item) => item.seq,
      reorder: { by: 'sequence', types: ['step'], window: '1s' },
    },
    handlers: {
      step: async (message, ctx) => {
        const step = message.json as unknown as Step;
        const before = inWork.get(step.entity) ?? 0;
        inWork.set(step.entity, before + 1);
        if (before > 0) sideBySide.push(step.entity);
        try {
          await ctx.manager.query('INSERT INTO applied (entity, seq, instance) VALUES (?, ?, ?)', [
            step.entity,
            step.seq,
            name,
          ]);
          if (ctx.attempt === 1 && fails(step)) throw new Error('transient');
        } finally {
          inWork.set(step.entity, (inWork.get(step.entity) ?? 0) - 1);
        }
      },
    },
  });
  running.push(app);
  return app;
}

/** One push with `count` steps of each entity, each entity's in an order of its own that is far from sorted. */
function shuffled(entities: number, from: number, count: number): Step[] {
  return Array.from({ length: entities * count }, (_, n) => {
    const entity = n % entities;
    const place = Math.floor(n / entities);
    // 7 and the count have no common divisor, so every sequence comes once.
    return { entity: `e${entity}`, seq: from + ((place * 7 + entity) % count) };
  });
}

const push = (app: InboxApp, steps: readonly Step[]) => app.inbox.receive('test', { rawBody: JSON.stringify(steps) });

async function expectInOrder(entities: number, count: number): Promise<void> {
  const rows = await database.query<{ entity: string; seq: number }>('SELECT entity, seq FROM applied ORDER BY id');
  const expected = Array.from({ length: count }, (_, n) => n);
  for (let entity = 0; entity < entities; entity++) {
    const own = rows.filter((row) => row.entity === `e${entity}`).map((row) => row.seq);
    expect([entity, own]).toEqual([entity, expected]);
  }
  expect(rows).toHaveLength(entities * count);
}

const handled = async () =>
  Number(
    (await database.query<{ n: number }>("SELECT COUNT(*) AS n FROM inbox_message WHERE status = 'success'"))[0]?.n,
  );
const late = () => running.flatMap((app) => app.events('late'));

test('four lanes, three instances, transient failures, one instance leaving: each entity is applied by sequence, once', async () => {
  const fails = ({ entity, seq }: Step) => (Number(entity.slice(1)) * 3 + seq) % 10 === 0;
  const options = { enabled: true, lanes: 4, lease: { ttl: 1_500 } };
  const [a, b] = await Promise.all(['a', 'b', 'c'].map((name) => start(name, options, fails)));
  if (!a || !b) throw new Error('no instances');
  for (let from = 0; from < 20; from += 10) await push(b, shuffled(10, from, 10));
  await waitUntil(async () => (await handled()) >= 50, { what: 'a quarter is handled', timeoutMs: 50_000 });
  running.splice(running.indexOf(a), 1);
  await a.close();
  await waitUntil(async () => (await handled()) === 200, { what: 'all are handled', timeoutMs: 50_000 });
  await expectInOrder(10, 20);
  expect(late()).toEqual([]);
});

test('messages of an entity in two lanes are never handled side by side, and none is left behind', async () => {
  const [a, b] = await Promise.all([
    // Long leases: a holder that lost its lane may still be in a handler, whose writes roll back.
    start('a', { enabled: true, lanes: 1, lease: { ttl: '10s' } }),
    start('b', { enabled: true, lanes: 8, lease: { ttl: '10s' } }),
  ]);
  for (const [n, app] of [a, b, a, b].entries()) await push(app, shuffled(6, n * 10, 10));
  await waitUntil(async () => (await handled()) === 240, { what: 'all are handled', timeoutMs: 50_000 });
  const lanes = await database.query('SELECT DISTINCT lane FROM inbox_message');
  expect(lanes.length).toBeGreaterThan(2);
  const rows = await database.query<{ entity: string; seq: number }>('SELECT entity, seq FROM applied ORDER BY id');
  expect(new Set(rows.map((row) => `${row.entity} ${row.seq}`)).size).toBe(240);
  expect(sideBySide).toEqual([]);
  // Each tenth came in one push and is in one lane.
  for (let entity = 0; entity < 6; entity++) {
    for (let from = 0; from < 40; from += 10) {
      const own = rows.filter((row) => row.entity === `e${entity}` && row.seq >= from && row.seq < from + 10);
      expect(own.map((row) => row.seq)).toEqual(Array.from({ length: 10 }, (_, n) => from + n));
    }
  }
});

describe('with twenty thousand messages of one entity', () => {
  /** As if they had arrived a minute ago, highest sequence first. */
  async function fill(app: InboxApp): Promise<string> {
    await push(app, [{ entity: 'long', seq: 1_000_000 }]);
    const [first] = await database.query<{ id: string }>('SELECT CAST(id AS CHAR) AS id FROM inbox_message');
    const digits = Array.from({ length: 10 }, (_, n) => `SELECT ${n} AS d`).join(' UNION ALL ');
    await database.query(
      `INSERT INTO inbox_message (source, type, entity_key, open_entity, sequence, body, status, next_attempt_at, received_at)
       SELECT m.source, m.type, m.entity_key, m.open_entity, 1 + a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d,
              JSON_OBJECT('entity', 'long', 'seq', 1 + a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d), 'pending',
              UTC_TIMESTAMP(3) - INTERVAL 59 SECOND, UTC_TIMESTAMP(3) - INTERVAL 60 SECOND
         FROM inbox_message m, (${digits}) a, (${digits}) b, (${digits}) c, (${digits}) d, (SELECT 0 AS d UNION ALL SELECT 1) e
        WHERE m.id = ? ORDER BY 5 DESC`,
      [first?.id],
    );
    await database.query('DELETE FROM inbox_message WHERE id = ?', [first?.id]);
    return String(first?.id);
  }

  test('others are handled at once while they wait for a retry, and they step aside in one round', async () => {
    const app = await start('a', { backoff: ['1h'] }, ({ entity }) => entity === 'long');
    await fill(app);
    await push(app, [{ entity: 'other', seq: 1 }]);
    await database.query(
      "UPDATE inbox_message SET next_attempt_at = UTC_TIMESTAMP(3), received_at = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND WHERE entity_key = 'other'",
    );
    // One that was looked at fails first; every other one of its entity has to step aside.
    await drainInbox(app.inbox);
    expect(await database.query('SELECT entity, seq FROM applied')).toEqual([{ entity: 'other', seq: 1 }]);
    const [held] = await database.query<{ n: number }>("SELECT COUNT(*) AS n FROM inbox_message WHERE status = 'held'");
    expect(held?.n).toBe(19_999);
  });

  test('a look at the entity reads two hundred of them, and a round goes on by sequence among these', async () => {
    const app = await start('a', { batchSize: 20 });
    await fill(app);
    const dataSource = await new DataSource(database.options).initialize();
    const statements: { sql: string; values: readonly unknown[] }[] = [];
    class NotingPool extends ControlPool {
      override rows<T extends Row>(sql: string, values: readonly unknown[] = []): Promise<T[]> {
        statements.push({ sql, values });
        return super.rows<T>(sql, values);
      }
    }
    const pool = new NotingPool(dataSource, { size: 2 });
    try {
      const store = new ReorderStore(pool, inboxTable(), () => ({
        types: new Set(['step']),
        windowMs: 1_000,
      }));
      const [row] = await database.query<{ id: string; open: string }>(
        'SELECT CAST(MIN(id) AS CHAR) AS id, CAST(MIN(open_entity) AS CHAR) AS open FROM inbox_message',
      );
      const message = { id: row?.id ?? '', open: row?.open ?? '', source: 'test', due: '2026-01-01 00:00:00.000' };
      const place = await store.placeOf(message, new Set());
      expect(place?.turn.kind === 'after' && place.turn.earlier).toHaveLength(50);
      const [look] = statements;
      await database.query('FLUSH STATUS');
      await database.query(look?.sql ?? '', look?.values);
      const read = await database.query<{ Value: string }>("SHOW SESSION STATUS LIKE 'Handler_read%'");
      expect(read.reduce((sum, { Value }) => sum + Number(Value), 0)).toBeLessThanOrEqual(410);
      expect(new EntityOrderStore(pool, inboxTable()).reorder).toBeNull();
    } finally {
      await pool.close();
      await dataSource.destroy();
    }
    await app.inbox.runOnce();
    const rows = await database.query<{ seq: number }>('SELECT seq FROM applied ORDER BY id');
    expect(rows).toHaveLength(20);
    // The 200 that arrived first are 20,000 down to 19,801; each one that is done lets the next smaller one in.
    expect(rows.map(({ seq }) => seq)).toEqual(Array.from({ length: 20 }, (_, n) => 19_801 - n));
  });
});
