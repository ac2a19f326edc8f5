// The reference application's CRM push, whose handler looks and then inserts without a key to help it, in a process that
// stands still between the two.
import type { Child } from '../../support/child.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { allTerminal, statusCounts } from '../../support/inbox-fleet.js';
import { testRedisUrl } from '../../support/redis.js';
import { ask, launch, listening, type RunningApp } from '../../support/reference-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
const children: Child[] = [];

beforeAll(async () => {
  database = await createTestDatabase('push_stall');
});
afterEach(async () => {
  for (const child of children.splice(0)) {
    child.signal('SIGCONT');
    await child.kill();
  }
  for (const table of ['inbox_message', 'demo_profile', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

function start(backend: 'database' | 'redis'): Promise<RunningApp> {
  const child = launch({
    DATABASE_URL: database.url,
    ...(backend === 'redis' ? { REDIS_URL: testRedisUrl() } : {}),
    MIGRATE: 'true',
    SIMULATE: 'true',
    // Longer than the handler blocks.
    LEASE_TTL_MS: '5000',
    INBOX_RECOVERY_INTERVAL_MS: '500',
  });
  children.push(child);
  return listening(child);
}

const push = (app: RunningApp, name: string, simulate: object = {}) =>
  ask(app, '/push', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      msgType: 1008,
      msgStr: JSON.stringify({ externalId: 'ada', name, phone: '1', simulate }),
    }),
  });

/** The servers refresh the list of transactions only when nobody looked at it for 100 ms. */
const serverCacheMs = 150;
/** Connections with an open transaction on this database: that of a handler between its look and its insert. */
const openTransactions = () =>
  database.query<{ id: string }>(
    `SELECT CAST(t.trx_mysql_thread_id AS CHAR) AS id FROM information_schema.innodb_trx t
       JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id WHERE p.db = ? AND p.command = 'Sleep'`,
    [database.name],
  );

test.each(['database', 'redis'] as const)(
  'with backend %s, a push whose process is frozen between look and insert, and the same push handled elsewhere meanwhile, make one profile',
  async (backend) => {
    const frozen = await start(backend);
    // It blocks its event loop after the look: when it wakes up, it inserts before any timer can stop it.
    const first = push(frozen, 'first', { blockLoopMs: 2_000 });
    let before = '';
    const transaction = await waitUntil(
      async () => {
        // Others, such as that which takes the lease, are over by the next look.
        const [open] = await openTransactions();
        const lasts = open?.id === before;
        before = open?.id ?? '';
        return lasts && open?.id;
      },
      { what: 'the handler has looked', intervalMs: serverCacheMs },
    );
    frozen.child.signal('SIGSTOP');
    expect(await statusCounts(database)).toEqual({ processing: 1 });
    const other = await start(backend);
    expect((await push(other, 'second')).status).toBe(200);
    await allTerminal(database, 30_000);

    frozen.child.signal('SIGCONT');
    expect((await first).status).toBe(200);
    const stalled = async () => (await openTransactions()).some(({ id }) => id === transaction);
    await waitUntil(async () => !(await stalled()), {
      what: 'the stalled transaction is over',
      intervalMs: serverCacheMs,
    });
    expect(await database.query('SELECT external_id, name, merged FROM demo_profile')).toEqual([
      { external_id: 'ada', name: 'second', merged: 1 },
    ]);
    expect(await statusCounts(database)).toEqual({ success: 2 });

    // It goes on as a living instance.
    expect((await push(frozen, 'third')).status).toBe(200);
    await allTerminal(database, 30_000);
    expect(await database.query('SELECT name, merged FROM demo_profile')).toEqual([{ name: 'third', merged: 2 }]);
    expect((await ask(frozen, '/health/live')).status).toBe(200);
    for (const child of children) expect(child.stderr).toBe('');
  },
);
