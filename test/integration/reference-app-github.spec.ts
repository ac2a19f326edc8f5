// GitHub webhooks at the reference application as its users run it: a process of its own, real HTTP.
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import {
  finished,
  idOf,
  launch,
  listening,
  pushGithub,
  type RunningApp,
  secrets,
  storedRows,
} from '../support/reference-app.js';

let database: TestDatabase;
let app: RunningApp;

beforeAll(async () => {
  database = await createTestDatabase('reference_app_github');
  app = await listening(launch({ ...secrets, DATABASE_URL: database.url, MIGRATE: 'true' }));
});
afterAll(async () => {
  await app?.child.kill();
  await database.drop();
});

test('GitHub events are counted by type, each delivery once', async () => {
  const push = (delivery: string) => pushGithub(app, { 'x-github-event': 'star', 'x-github-delivery': delivery });
  const answers = [await push('d-1'), await push('d-2'), await push('d-1')];
  expect(answers.map(({ body }) => (body as { duplicate: boolean }).duplicate)).toEqual([false, false, true]);
  for (const answer of answers) await finished(database, idOf(answer));
  expect(await database.query("SELECT events FROM demo_github_event WHERE type = 'star'")).toEqual([{ events: 2 }]);
});

test.each([
  ['without a delivery id', { 'x-github-event': 'star' }],
  ['with two delivery ids', { 'x-github-event': 'star', 'x-github-delivery': 'd-8, d-9' }],
  ['without a type', { 'x-github-delivery': 'd-8' }],
])('a GitHub webhook %s is answered 400 and not stored', async (_what, headers) => {
  const before = await storedRows(database);
  expect((await pushGithub(app, headers)).status).toBe(400);
  expect(await storedRows(database)).toBe(before);
});

test.each<[string, Record<string, string>, string]>([
  ['signed with another secret', {}, 'x'.repeat(20)],
  ['without a signature', { 'x-hub-signature-256': '' }, secrets.GITHUB_SECRET],
])('a GitHub webhook %s is answered 401 and not stored', async (_what, changes, secret) => {
  const before = await storedRows(database);
  const headers = { 'x-github-event': 'star', 'x-github-delivery': 'd-7', ...changes };
  expect((await pushGithub(app, headers, secret)).status).toBe(401);
  expect(await storedRows(database)).toBe(before);
});
