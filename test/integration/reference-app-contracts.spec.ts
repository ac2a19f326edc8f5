// Contract events of the reference application as its users run it: two processes on one database, real HTTP. Batches
// by contract, the comparison of states, and what becomes of a batch in which one message fails.
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import {
  type Answer,
  ask,
  finished,
  idOf,
  launch,
  listening,
  pushContracts,
  type RunningApp,
  secrets,
  standardSecret,
  stored,
  storedRows,
} from '../support/reference-app.js';

let database: TestDatabase;
let app: RunningApp;
let other: RunningApp;

beforeAll(async () => {
  database = await createTestDatabase('reference_app_contracts');
  const env = { ...secrets, DATABASE_URL: database.url, MIGRATE: 'true', SIMULATE: 'true' };
  [app, other] = await Promise.all([listening(launch(env)), listening(launch(env))]);
});
afterAll(async () => {
  await Promise.all([app?.child.kill(), other?.child.kill()]);
  await database.drop();
});

let messages = 0;
const event = (contractId: string, signStatus: string, more: object = {}) => ({
  msgId: `msg-${++messages}`,
  contractId,
  signStatus,
  signTime: '2026-01-31T12:00:00+08:00',
  ...more,
});
const shown = async (id: string) => (await ask(other, `/contracts/${id}`)).body;
const idsOf = ({ body }: Answer) => (body as { id: string }[]).map(({ id }) => id);
const allFinished = async (answer: Answer) => {
  const ends = [];
  for (const id of idsOf(answer)) ends.push(await finished(database, id));
  return ends;
};

test('a signed event is stored before the answer, handled, and seen at GET /contracts/:id', async () => {
  const answer = await pushContracts(app, event('c-1', 'SIGNED'));
  expect(answer).toMatchObject({ status: 200, body: stored });
  expect(await finished(database, idOf(answer))).toMatchObject({ status: 'success', attempts: 1 });
  const state = { signStatus: 'SIGNED', signTime: '2026-01-31T04:00:00.000000Z' };
  expect(await shown('c-1')).toEqual({ contractId: 'c-1', ...state, states: [state] });
});

test('a list is answered with a list of receipts, and the states of a contract stand in its order', async () => {
  const statuses = ['SENT', 'VIEWED', 'SIGNED'];
  const list = statuses.flatMap((status) => ['c-2', 'c-3'].map((contract) => event(contract, status)));
  const answer = await pushContracts(app, list);
  expect(answer).toMatchObject({ status: 200, body: Array(6).fill(stored) });
  expect(await allFinished(answer)).toEqual(Array(6).fill({ status: 'success', attempts: 1, error_kind: null }));
  for (const contract of ['c-2', 'c-3']) {
    const { states, signStatus } = (await shown(contract)) as { states: { signStatus: string }[]; signStatus: string };
    expect(states.map((state) => state.signStatus)).toEqual(statuses);
    expect(signStatus).toBe('SIGNED');
  }
});

test('the same push again, at the other instance, is a duplicate', async () => {
  const signed = event('c-4', 'SIGNED');
  const first = await pushContracts(app, signed);
  const again = await pushContracts(other, signed);
  expect(again.body).toEqual({ id: idOf(first), duplicate: true, status: 'duplicate' });
});

test('the id of the webhook stands for an event without an id', async () => {
  const { msgId: _, ...anonymous } = event('c-5', 'SIGNED');
  const first = await pushContracts(app, anonymous, { id: 'msg_anonymous' });
  const again = await pushContracts(other, anonymous, { id: 'msg_anonymous' });
  expect(again.body).toEqual({ id: idOf(first), duplicate: true, status: 'duplicate' });
});

test('the same state under another id is a success, another time for it is a conflict; neither changes what stands', async () => {
  const answer = await pushContracts(app, [
    event('c-6', 'SIGNED'),
    event('c-6', 'SIGNED', { signTime: Date.parse('2026-01-31T04:00:00Z') }),
    event('c-6', 'SIGNED', { signTime: '2026-01-31T12:00:01+08:00' }),
    event('c-6', 'ARCHIVED'),
  ]);
  expect((await allFinished(answer)).map(({ status, error_kind }) => [status, error_kind])).toEqual([
    ['success', null],
    ['success', null],
    ['failed', 'conflict'],
    ['success', null],
  ]);
  expect(await shown('c-6')).toMatchObject({
    states: [{ signStatus: 'SIGNED', signTime: '2026-01-31T04:00:00.000000Z' }, { signStatus: 'ARCHIVED' }],
  });
});

test('in a list, one message that fails for good does not take the others with it', async () => {
  const answer = await pushContracts(
    app,
    Array.from({ length: 30 }, (_, n) =>
      event(`c-7-${n % 5}`, `S${n}`, n === 7 ? { simulate: { permanent: true } } : {}),
    ),
  );
  const ends = await allFinished(answer);
  expect(ends.filter(({ status }) => status === 'success')).toHaveLength(29);
  expect(ends[7]).toMatchObject({ status: 'failed', attempts: 1, error_kind: 'simulated' });
  const [written] = await database.query("SELECT COUNT(*) AS n FROM demo_contract WHERE contract_id LIKE 'c-7-%'");
  expect(written).toEqual({ n: 29 });
});

test('a message that fails at first is tried again, before the later ones of its contract', async () => {
  const answer = await pushContracts(app, [
    event('c-8', 'SENT', { simulate: { failTimes: 1 } }),
    event('c-8', 'SIGNED'),
    event('c-9', 'SIGNED'),
  ]);
  expect((await allFinished(answer)).map(({ status }) => status)).toEqual(['success', 'success', 'success']);
  expect(await finished(database, idsOf(answer)[0])).toMatchObject({ attempts: 2 });
  expect(await shown('c-8')).toMatchObject({ states: [{ signStatus: 'SENT' }, { signStatus: 'SIGNED' }] });
});

test.each<[string, () => Promise<Answer>, number]>([
  [
    'an event signed with another secret',
    () => pushContracts(app, event('x', 'SIGNED'), { secret: standardSecret() }),
    401,
  ],
  ['an unsigned event', () => pushContracts(app, event('x', 'SIGNED'), { changes: { 'webhook-signature': '' } }), 401],
  ['a body that is no JSON', () => pushContracts(app, 'contractId=1'), 400],
  ['an event without a contract', () => pushContracts(app, { ...event('x', 'SIGNED'), contractId: '' }), 400],
  ['an event without a status', () => pushContracts(app, { ...event('x', 'SIGNED'), signStatus: undefined }), 400],
  ['an event whose time is none', () => pushContracts(app, event('x', 'SIGNED', { signTime: 'noon' })), 400],
  ['an event after the year 9999', () => pushContracts(app, event('x', 'SIGNED', { signTime: 1e15 })), 400],
  ['a list with one bad event', () => pushContracts(app, [event('x', 'SIGNED'), { contractId: 'x' }]), 400],
  [
    'a list with an event that has no id',
    () => pushContracts(app, [{ ...event('x', 'SIGNED'), msgId: undefined }]),
    400,
  ],
])('%s is refused and nothing is stored', async (_what, push, status) => {
  const before = await storedRows(database);
  expect((await push()).status).toBe(status);
  expect(await storedRows(database)).toBe(before);
});

test('a contract of which nothing came is 404', async () => {
  expect((await ask(app, '/contracts/nobody')).status).toBe(404);
});
