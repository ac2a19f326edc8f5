// The admin routes of the reference application: closed without the token, and a failed event run again.
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import {
  ask,
  finished,
  idOf,
  launch,
  listening,
  orderEvent,
  pushOrders,
  type RunningApp,
  secrets,
} from '../support/reference-app.js';
import { waitUntil } from '../support/wait-until.js';

const token = 'an-admin-token-of-some-length';
let database: TestDatabase;
let app: RunningApp;
let closed: RunningApp;

beforeAll(async () => {
  database = await createTestDatabase('reference_app_replay');
  const env = {
    ...secrets,
    DATABASE_URL: database.url,
    MIGRATE: 'true',
    SIMULATE: 'true',
    INBOX_ROUND_INTERVAL_MS: '100',
  };
  app = await listening(launch({ ...env, ADMIN_TOKEN: token }));
  closed = await listening(launch({ ...env, INBOX_ENABLED: 'false' }));
});
afterAll(async () => {
  await Promise.all([app?.child.kill(), closed?.child.kill()]);
  await database.drop();
});

const admin = (path: string, init: RequestInit = {}) =>
  ask(app, `/admin/replay/${path}`, {
    ...init,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
  });

test('without the token the routes are closed, without one in the environment they are not there', async () => {
  expect((await ask(app, '/admin/replay/runs')).status).toBe(401);
  expect((await ask(app, '/admin/replay/runs', { headers: { authorization: 'Bearer wrong' } })).status).toBe(401);
  expect((await ask(closed, '/admin/replay/runs', { headers: { authorization: `Bearer ${token}` } })).status).toBe(404);
});

test('a failed event is seen, run again after its cause is gone, and keeps its history', async () => {
  const answer = await pushOrders(app, orderEvent('r-1', 'order.created', { simulate: { permanent: true } }));
  const id = idOf(answer);
  expect(await finished(database, id)).toMatchObject({ status: 'failed' });
  expect(await admin('messages?source=orders')).toMatchObject({ status: 200, body: [{ id, status: 'failed' }] });
  await database.query('UPDATE inbox_message SET body = REPLACE(body, \'"permanent":true\', \'"permanent":false\')');
  const started = await admin('runs', {
    method: 'POST',
    body: JSON.stringify({ selection: { ids: [id] }, reason: 'the cause is fixed', ratePerSecond: 100 }),
  });
  expect(started).toMatchObject({ status: 202, body: { selected: 1, actor: 'admin' } });
  await waitUntil(async () => (await ask(app, '/orders/r-1')).status === 200, { what: 'the order is there' });
  expect(await finished(database, id)).toMatchObject({ status: 'success' });
  expect(await admin(`messages/${id}`)).toMatchObject({
    body: { status: 'success', replays: 1, history: [{ reason: 'replay: the cause is fixed' }] },
  });
});
