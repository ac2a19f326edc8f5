// CASES: orphan-recovery, pool-transaction, time and scheduling, on a database server of this file's own.
import { execFileSync } from 'node:child_process';
import { type Connection, createConnection } from 'mysql2/promise';
import { drainInbox } from '../../../src/testing/index.js';
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import {
  allTerminal,
  createEffectTables,
  outOfOrder,
  startInstance,
  statusCounts,
  storeMessages,
  wrongEffects,
} from '../../support/inbox-fleet.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';
import { waitUntil } from '../../support/wait-until.js';

let server: PrivateDatabase;
/** For looking and preparing, as root. */
let database: TestDatabase;
/** For applications, as a user whom `read_only` and `init_connect` apply to. */
let applications: TestDatabase;
const children: Child[] = [];
const apps: InboxApp[] = [];

beforeAll(async () => {
  server = await startPrivateDatabase('like-the-tests');
  database = await migrated(await createTestDatabase('cases_database', { serverUrl: server.url }));
  await createEffectTables(database);
  await asRoot((root) =>
    root.query(
      `CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT ALL ON ${database.name}.* TO app@'127.0.0.1'`,
    ),
  );
  const url = new URL(database.url);
  url.username = 'app';
  url.password = 'secret';
  applications = { ...database, url: url.href, options: { ...database.options, url: url.href } };
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    expect(child.stdout).not.toContain('unhandledRejection');
    await child.kill();
  }
  await Promise.all(apps.splice(0).map((app) => app.close()));
  for (const table of ['inbox_message', 'effect', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await database.drop();
  await server.remove();
});

async function asRoot<T>(work: (root: Connection) => Promise<T>): Promise<T> {
  const root = await createConnection({ uri: server.url, multipleStatements: true });
  try {
    return await work(root);
  } finally {
    await root.end();
  }
}

const setGlobal = (settings: string) => asRoot((root) => root.query(`SET ${settings}`));

async function startFleet(...names: string[]): Promise<void> {
  const options = { lanes: 4, lease: { ttl: 2_000 }, maxRetry: 50 };
  children.push(...(await Promise.all(names.map((name) => startInstance(applications, name, options)))));
}

const handled = async () => (await statusCounts(database)).success ?? 0;
const bodies = (count: number) => Array.from({ length: count }, (_, n) => ({ entity: `e${n % 13}`, sleepMs: 5 }));

test('C25 the database is killed, comes back read-only, and is writable again: no claim is half written, and every message ends', async () => {
  const halfWritten = () =>
    database.query(
      `SELECT id FROM inbox_message WHERE (status = 'processing') <> (claim_token IS NOT NULL)
          OR (claim_token IS NULL) <> (claimed_by IS NULL) OR (claim_token IS NULL) <> (claimed_until IS NULL)`,
    );
  await storeMessages(database, bodies(200), 4);
  await startFleet('a', 'b');
  await waitUntil(async () => (await handled()) >= 30, { what: 'messages flow', timeoutMs: 40_000 });
  await server.kill();
  await server.start();
  expect(await halfWritten()).toEqual([]);
  await setGlobal('GLOBAL read_only = ON');
  const before = await handled();
  // Both meet it: a round of each fails.
  for (const child of children) await child.line(/^event round-failed/, 60_000);
  expect(await halfWritten()).toEqual([]);
  await setGlobal('GLOBAL read_only = OFF');
  await waitUntil(async () => (await handled()) > before, { what: 'messages flow again', timeoutMs: 30_000 });
  await allTerminal(database, 80_000);
  expect(await statusCounts(database)).toEqual({ success: 200 });
  expect(await wrongEffects(database)).toEqual([]);
  expect(await outOfOrder(database)).toEqual([]);
  expect(await halfWritten()).toEqual([]);
});

test('C113 a database that answers nothing for longer than every statement waits: all loops of all instances turn again by themselves', async () => {
  await storeMessages(database, bodies(80), 4);
  await startFleet('a', 'b');
  await waitUntil(async () => (await handled()) >= 10, { what: 'messages flow', timeoutMs: 40_000 });
  server.pause();
  try {
    for (const child of children) await child.line(/^event round-failed/, 60_000);
  } finally {
    server.resume();
  }
  await allTerminal(database, 80_000);
  // Each instance has its share of the lanes again, and works in them.
  const seen = new Set<string>();
  await waitUntil(
    async () => {
      await storeMessages(database, bodies(13), 4);
      await allTerminal(database, 60_000);
      for (const { instance } of await database.query<{ instance: string }>('SELECT DISTINCT instance FROM effect'))
        seen.add(instance);
      await database.query('DELETE FROM effect');
      await database.query('DELETE FROM inbox_message');
      return seen.size === 2;
    },
    { what: 'both instances work', timeoutMs: 60_000 },
  );
});

test('C43 the server closed every idle connection: the next push is stored and handled, without a refusal or a failed attempt', async () => {
  await setGlobal('GLOBAL wait_timeout = 1');
  try {
    const app = await startInboxApp(applications, {
      handlers: { any: (_message, ctx) => ctx.manager.query('SELECT 1') },
    });
    apps.push(app);
    const connections = () =>
      asRoot(async (root) => {
        const [rows] = await root.query("SELECT COUNT(*) AS n FROM information_schema.processlist WHERE user = 'app'");
        return Number((rows as { n: number }[])[0]?.n);
      });
    for (let round = 1; round <= 5; round++) {
      await pushJson(app.inbox, { type: 'any' });
      await drainInbox(app.inbox);
      expect(await statusCounts(database)).toEqual({ success: round });
      await waitUntil(async () => (await connections()) === 0, {
        what: 'the server closed them all',
        timeoutMs: 30_000,
      });
    }
    expect(app.events('refused', 'retrying', 'round-failed')).toEqual([]);
    expect(await database.query('SELECT DISTINCT attempts FROM inbox_message')).toEqual([{ attempts: 1 }]);
  } finally {
    await setGlobal('GLOBAL wait_timeout = 28800');
  }
});

describe.each([
  // 02:30 is a wall-clock time that Berlin did not have, or had twice.
  ['the missing hour of spring', '2026-03-29 02:30:00'],
  ['the doubled hour of autumn', '2026-10-25 02:30:00'],
])('C83 in a server of Berlin, in %s', (_what, now) => {
  beforeAll(async () => {
    const program = server.flavour === 'mysql' ? 'mysql_tzinfo_to_sql' : 'mariadb-tzinfo-to-sql';
    const zone = execFileSync(program, ['/usr/share/zoneinfo/Europe/Berlin', 'Europe/Berlin'], { encoding: 'utf8' });
    const unixTime = Date.parse(`${now.replace(' ', 'T')}Z`) / 1000;
    await asRoot(async (root) => {
      const [known] = await root.query("SELECT CONVERT_TZ('2026-01-01', '+00:00', 'Europe/Berlin') AS at");
      if ((known as { at: unknown }[])[0]?.at === null) await root.query(`USE mysql; ${zone}`);
      await root.query("SET GLOBAL time_zone = 'Europe/Berlin'; SET GLOBAL init_connect = ?", [
        `SET time_zone = 'Europe/Berlin', timestamp = ${unixTime}`,
      ]);
    });
  });
  afterAll(() => setGlobal("GLOBAL time_zone = 'SYSTEM', GLOBAL init_connect = ''"));

  test('pushes are stored, and retries are due when they should be, in order', async () => {
    let failures = 0;
    const app = await startInboxApp(applications, {
      inbox: { backoff: ['30m', '90m'], batchSize: 200 },
      handlers: {
        any: (_message, ctx) => {
          if (failures >= 10) return;
          failures++;
          throw new Error(`attempt ${ctx.attempt} fails`);
        },
      },
    });
    apps.push(app);
    const [zone] = await app.dataSource.query('SELECT @@time_zone AS name, CAST(UTC_TIMESTAMP() AS CHAR) AS utc');
    expect(zone).toEqual({ name: 'Europe/Berlin', utc: now });
    for (let n = 0; n < 100; n++) await pushJson(app.inbox, { type: 'any', id: `m${n}` });
    await app.inbox.runOnce();
    expect(app.events('refused', 'round-failed')).toEqual([]);
    const rows = await database.query<{ status: string; received: string; due: string }>(
      'SELECT status, CAST(received_at AS CHAR) AS received, CAST(next_attempt_at AS CHAR) AS due FROM inbox_message ORDER BY id',
    );
    const [hour] = now.split(':');
    expect(rows.map(({ received }) => received)).toEqual(rows.map(() => `${now}.000`));
    expect(rows.slice(0, 10)).toEqual(
      rows
        .slice(0, 10)
        .map(() => ({ status: 'pending', received: `${now}.000`, due: `${hour?.replace(/02$/, '03')}:00:00.000` })),
    );
    expect(rows.slice(10).every(({ status }) => status === 'success')).toBe(true);
  });
});
