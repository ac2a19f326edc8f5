// What enqueueing costs the caller's transaction, counted in the server's own general log. Needs a private server.
import type { OutgoingMessage } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type OutboxApp, startOutboxApp } from '../../support/outbox-app.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';

let server: PrivateDatabase;
let database: TestDatabase;
let app: OutboxApp;

beforeAll(async () => {
  server = await startPrivateDatabase('like-the-tests');
  database = await migrated(await createTestDatabase('statements', { serverUrl: server.url }));
  app = await startOutboxApp(database);
  await database.query("SET GLOBAL log_output = 'TABLE'");
  await database.query('SET GLOBAL general_log = ON');
});
afterAll(async () => {
  await app.close();
  await database.drop();
  await server.remove();
});

/** What the server was sent between START TRANSACTION and COMMIT, both left out. */
async function statementsOf(messages: OutgoingMessage | OutgoingMessage[]): Promise<string[]> {
  await database.query('TRUNCATE mysql.general_log');
  await app.send(messages);
  const rows = await database.query<{ argument: string }>(
    "SELECT CONVERT(argument USING utf8mb4) AS argument FROM mysql.general_log WHERE command_type IN ('Query', 'Execute', 'Prepare')",
  );
  const all = rows.map((row) => row.argument).filter((sql) => !sql.includes('general_log'));
  const inside = all.slice(all.indexOf('START TRANSACTION') + 1, all.indexOf('COMMIT'));
  expect(inside.length).toBe(all.length - 2);
  return inside;
}

const into = /^INSERT INTO outbox_message /;
const message: OutgoingMessage = { topic: 't', payload: { order: 1 }, headers: { a: 'b' } };

test('a message costs exactly one round trip, with and without a key', async () => {
  for (const one of [message, { ...message, key: 'k' }, { ...message, key: 'k', receiver: 'r', subject: 's' }])
    expect(await statementsOf(one)).toEqual([expect.stringMatching(into)]);
});

test('200 messages of 200 keys cost one as well', async () => {
  const many = Array.from({ length: 200 }, (_, n) => ({ ...message, key: `k${n}` }));
  expect(await statementsOf(many)).toEqual([expect.stringMatching(into)]);
});

test('more than 200 messages, or more than 1 MiB, go in several statements of bounded size', async () => {
  expect(await statementsOf(Array.from({ length: 401 }, () => message))).toHaveLength(3);
  const large = Array.from({ length: 5 }, () => ({ ...message, payload: Buffer.alloc(400_000) }));
  expect(await statementsOf(large)).toHaveLength(3);
});

test('strictOrder adds one for each different key', async () => {
  const strict = { ...message, key: 'k', strictOrder: true };
  // The rows of keys that this process has not met are added beforehand, over a connection of ours.
  await statementsOf([strict, { ...strict, key: 'other' }]);
  expect(await statementsOf(strict)).toEqual([
    expect.stringMatching(/^UPDATE mailroom_order_key SET used_at/),
    expect.stringMatching(into),
  ]);
  expect(await statementsOf([strict, strict, { ...strict, key: 'other' }])).toHaveLength(3);
  const costs = [];
  for (const [name, one] of Object.entries({ plain: message, keyed: { ...message, key: 'k' }, strictOrder: strict }))
    costs.push(`${name} ${(await statementsOf(one)).length}`);
  console.info(`round trips of one enqueue: ${costs.join(', ')}`);
});
