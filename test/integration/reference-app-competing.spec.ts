// The reference application with INBOX_MODE=competing: two processes handle side by side, without order.
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import {
  ask,
  finished,
  launch,
  listening,
  pushContracts,
  type RunningApp,
  secrets,
  storedRows,
} from '../support/reference-app.js';

let database: TestDatabase;
let apps: RunningApp[] = [];

beforeAll(async () => {
  database = await createTestDatabase('reference_app_competing');
  const env = {
    ...secrets,
    DATABASE_URL: database.url,
    MIGRATE: 'true',
    INBOX_MODE: 'competing',
    INBOX_ROUND_INTERVAL_MS: '100',
  };
  apps = await Promise.all([listening(launch(env)), listening(launch(env))]);
});
afterAll(async () => {
  await Promise.all(apps.map((app) => app.child.kill()));
  await database.drop();
});

test('contract events of one contract are handled once each, one call of the group at a time', async () => {
  const [app] = apps;
  if (!app) throw new Error('the application does not run');
  const events = Array.from({ length: 40 }, (_, n) => ({
    msgId: `m-${n}`,
    contractId: `c-${n % 3}`,
    signStatus: `S${n}`,
    signTime: '2026-01-31T12:00:00+08:00',
  }));
  const { status, body } = await pushContracts(app, events);
  expect(status).toBe(200);
  for (const { id } of body as { id: string }[])
    expect(await finished(database, id)).toMatchObject({ status: 'success', attempts: 1 });
  expect(await database.query('SELECT COUNT(*) AS n FROM demo_contract')).toEqual([{ n: 40 }]);
  expect(await database.query("SELECT name FROM mailroom_lease WHERE name LIKE 'inbox:group:%'")).toEqual([]);
  expect(await storedRows(database)).toBe(40);
});

test('POST /push is answered 503 and says why', async () => {
  const [app] = apps;
  if (!app) throw new Error('the application does not run');
  const answer = await ask(app, '/push', { method: 'POST', body: '{"msgType":1008,"msgStr":"{}"}' });
  expect(answer).toMatchObject({ status: 503, body: { message: expect.stringContaining('INBOX_MODE=ordered') } });
});
