// Order events of the reference application as its users run it: two processes on one database, real HTTP. What bad
// input is answered with, and what the log holds.
import { randomBytes } from 'node:crypto';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import {
  type Answer,
  ask,
  finished,
  idOf,
  launch,
  listening,
  orderEvent,
  pushOrders,
  type RunningApp,
  secrets,
  standardSecret,
  stored,
  storedRows,
} from '../support/reference-app.js';

describe('two instances on one database', () => {
  let database: TestDatabase;
  let app: RunningApp;
  let other: RunningApp;

  beforeAll(async () => {
    database = await createTestDatabase('reference_app');
    const env = {
      ...secrets,
      DATABASE_URL: database.url,
      MIGRATE: 'true',
      SIMULATE: 'true',
      RETENTION_SUCCESS_MINUTES: '5',
    };
    // Both at once on an empty database: one runs the migrations, the other waits for it.
    [app, other] = await Promise.all([listening(launch(env)), listening(launch(env))]);
  });
  afterAll(async () => {
    await Promise.all([app?.child.kill(), other?.child.kill()]);
    await database.drop();
  });

  const order = async (id: string) => (await ask(other, `/orders/${id}`)).body;

  test('a signed order event is stored before the answer, handled, and seen at GET /orders/:id', async () => {
    const answer = await pushOrders(app, orderEvent('o-1', 'order.created'));
    expect(answer).toMatchObject({ status: 200, body: stored });
    expect(await finished(database, idOf(answer))).toMatchObject({ status: 'success', attempts: 1 });
    expect(await order('o-1')).toMatchObject({
      orderId: 'o-1',
      status: 'created',
      amount: 1_200,
      appliedEvents: 1,
      ignoredEvents: 0,
      updatedAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    });
  });

  test('the same event again, at the other instance and in another push, is a duplicate and applied once', async () => {
    const created = orderEvent('o-2', 'order.created');
    const first = await pushOrders(app, created);
    const again = await pushOrders(other, created);
    expect(again.body).toEqual({ id: idOf(first), duplicate: true, status: 'duplicate' });
    await finished(database, idOf(first));
    expect(await order('o-2')).toMatchObject({ appliedEvents: 1, ignoredEvents: 0 });
  });

  test('a list of events is answered with a list of receipts and handled in its order', async () => {
    const types = ['order.created', 'order.paid', 'order.shipped', 'order.completed'];
    const answer = await pushOrders(
      app,
      types.map((type) => orderEvent('o-3', type)),
    );
    expect(answer).toMatchObject({ status: 200, body: [stored, stored, stored, stored] });
    for (const { id } of answer.body as { id: string }[]) await finished(database, id);
    expect(await order('o-3')).toMatchObject({ status: 'completed', appliedEvents: 4, ignoredEvents: 0 });
  });

  test('an event that the order does not allow is a success, ignored and counted', async () => {
    await pushOrders(app, orderEvent('o-4', 'order.created'));
    const answer = await pushOrders(app, orderEvent('o-4', 'order.shipped'));
    expect(await finished(database, idOf(answer))).toMatchObject({ status: 'success' });
    expect(await order('o-4')).toMatchObject({ status: 'created', appliedEvents: 1, ignoredEvents: 1 });
  });

  test('the id of the webhook stands for an event without an id', async () => {
    const { eventId: _, ...anonymous } = orderEvent('o-5', 'order.created');
    const first = await pushOrders(app, anonymous, { id: 'msg_anonymous' });
    const again = await pushOrders(app, anonymous, { id: 'msg_anonymous' });
    expect(again.body).toEqual({ id: idOf(first), duplicate: true, status: 'duplicate' });
  });

  test('a failure is tried again, a permanent one is not', async () => {
    const once = await pushOrders(app, orderEvent('o-6', 'order.created', { simulate: { failTimes: 1 } }));
    const never = await pushOrders(app, orderEvent('o-7', 'order.created', { simulate: { permanent: true } }));
    expect(await finished(database, idOf(once))).toMatchObject({ status: 'success', attempts: 2 });
    expect(await finished(database, idOf(never))).toMatchObject({
      status: 'failed',
      attempts: 1,
      error_kind: 'simulated',
    });
    expect((await ask(app, '/orders/o-7')).status).toBe(404);
  });

  const otherSecret = standardSecret();
  test.each<[string, () => Promise<Answer>, number]>([
    [
      'an order signed with another secret',
      () => pushOrders(app, orderEvent('x', 'order.created'), { secret: otherSecret }),
      401,
    ],
    [
      'an unsigned order',
      () => pushOrders(app, orderEvent('x', 'order.created'), { changes: { 'webhook-signature': '' } }),
      401,
    ],
    ['an unsigned list that is no JSON', () => pushOrders(app, '[', { changes: { 'webhook-signature': '' } }), 401],
    ['a body over the limit', () => pushOrders(app, 'x'.repeat(1_048_577)), 413],
    ['a body that is no JSON', () => pushOrders(app, 'orderId=1'), 400],
    ['a type that no order has', () => pushOrders(app, orderEvent('x', 'order.lost')), 400],
    ['an event without an order', () => pushOrders(app, { ...orderEvent('x', 'order.paid'), orderId: '' }), 400],
    [
      'a list with one bad event',
      () => pushOrders(app, [orderEvent('x', 'order.created'), { type: 'order.paid' }]),
      400,
    ],
    [
      'a list with an event that has no id',
      () => pushOrders(app, [{ ...orderEvent('x', 'order.created'), eventId: undefined }]),
      400,
    ],
  ])('%s is refused and nothing is stored', async (_what, push, status) => {
    const before = await storedRows(database);
    expect((await push()).status).toBe(status);
    expect(await storedRows(database)).toBe(before);
  });

  test('an order that was never pushed is 404, and so is a path that does not exist', async () => {
    expect((await ask(app, '/orders/nobody')).status).toBe(404);
    expect((await ask(app, '/nowhere')).status).toBe(404);
    expect((await ask(app, '/webhooks/nowhere', { method: 'POST', body: '{}' })).status).toBe(404);
  });

  test('both are live and ready', async () => {
    expect(await ask(app, '/health/live')).toMatchObject({ status: 200, body: { status: 'ok' } });
    const details = { draining: { status: 'up' }, database: { status: 'up' } };
    expect(await ask(other, '/health/ready')).toMatchObject({ status: 200, body: { status: 'ok', details } });
  });

  test('the log is JSON, and holds no secret and no payload', async () => {
    const marker = `marker-${randomBytes(8).toString('hex')}`;
    await finished(database, idOf(await pushOrders(app, orderEvent('o-8', 'order.created', { note: marker }))));
    await pushOrders(app, orderEvent('x', 'order.created', { note: marker }), { secret: otherSecret });
    const log = app.child.stdout + app.child.stderr;
    for (const line of app.child.stdout.trim().split('\n')) expect(() => JSON.parse(line)).not.toThrow();
    for (const hidden of [marker, secrets.ORDERS_SECRET, secrets.ORDERS_SECRET.slice(6), secrets.GITHUB_SECRET])
      expect(log).not.toContain(hidden);
  });
});
