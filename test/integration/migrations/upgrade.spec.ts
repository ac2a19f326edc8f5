// From the schema of every released version, with messages in every state, to the newest.
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { DataSource } from 'typeorm';
import { mailroomMigrations, runMigrationsExclusively } from '../../../migrations/index.js';
import { schemaVersion } from '../../../src/database/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { committedSchema } from '../../support/schema/committed-schema.js';
import { dumpSchema } from '../../support/schema/dump-schema.js';

const migrationsFolder = new URL('../../../migrations/', import.meta.url);
const released = new URL('../../support/schema/released/', import.meta.url);

/** Migrations that each version had run. */
const ranIn: Readonly<Record<string, readonly string[]>> = { 1: ['CreateMailroomTables1764547200000'] };

let database: TestDatabase;
let app: InboxApp | undefined;

beforeEach(async () => {
  database = await createTestDatabase('upgrade');
});
afterEach(async () => {
  await app?.close();
  app = undefined;
  await database.drop();
});

test('a released migration was not edited', () => {
  const frozen = JSON.parse(readFileSync(new URL('frozen.json', migrationsFolder), 'utf8')) as Record<string, string>;
  const timed = readdirSync(migrationsFolder).filter((name) => /^\d{13}-.*\.ts$/.test(name));
  expect(Object.keys(frozen).sort()).toEqual(timed.sort());
  for (const [name, hash] of Object.entries(frozen)) {
    const text = readFileSync(new URL(name, migrationsFolder));
    expect({ name, hash: createHash('sha256').update(text).digest('hex') }).toEqual({ name, hash });
  }
});

test('there is a schema of every version', () => {
  const versions = readdirSync(released).sort();
  expect(versions).toEqual(Array.from({ length: schemaVersion }, (_, n) => String(n + 1)));
});

test.each(readdirSync(released))('from version %s: the newest schema, and every message goes on', async (version) => {
  const dump = readFileSync(new URL(`${version}/${database.flavour}.sql`, released), 'utf8').replace(/^--.*$/gm, '');
  for (const statement of dump.split(';\n')) if (statement.trim() !== '') await database.query(statement);
  await database.query(
    'CREATE TABLE migrations (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY, timestamp BIGINT NOT NULL, name VARCHAR(255) NOT NULL)',
  );
  for (const name of ranIn[version] ?? [])
    await database.query('INSERT INTO migrations (timestamp, name) VALUES (?, ?)', [Number(name.slice(-13)), name]);
  // An entity whose head waits for its retry and whose follower is held, an orphan, a plain one, and what has ended.
  await database.query(
    `INSERT INTO inbox_message (source, type, entity_key, open_entity, body, status, attempts, claim_token, claimed_until) VALUES
      ('test', 'a', 'e', 7, '{"type":"a","n":1}', 'pending', 2, NULL, NULL),
      ('test', 'a', 'e', 7, '{"type":"a","n":2}', 'held', 0, NULL, NULL),
      ('test', 'a', NULL, NULL, '{"type":"a","n":3}', 'processing', 1, REPEAT('t', 16), '2001-01-01'),
      ('test', 'a', NULL, NULL, '{"type":"a","n":4}', 'pending', 0, NULL, NULL),
      ('test', 'a', NULL, NULL, '{"type":"a","n":5}', 'failed', 4, NULL, NULL),
      ('test', 'a', NULL, NULL, '{"type":"a","n":6}', 'success', 1, NULL, NULL)`,
  );

  const dataSource = await new DataSource({ ...database.options, migrations: mailroomMigrations() }).initialize();
  const ran = await runMigrationsExclusively(dataSource);
  await dataSource.destroy();
  expect(ran).toHaveLength(mailroomMigrations().length - (ranIn[version]?.length ?? 0));
  const current = await dumpSchema(database);
  expect(current).toBe(await committedSchema(database.flavour, current));
  expect(await database.query("SELECT value FROM mailroom_setting WHERE name = 'schema_version'")).toEqual([
    { value: String(schemaVersion) },
  ]);

  const seen: number[] = [];
  app = await startInboxApp(database, { handlers: { a: (message) => void seen.push(Number(message.json.n)) } });
  await app.inbox.recoverOnce();
  await drainInbox(app.inbox);
  expect(seen.sort()).toEqual([1, 2, 3, 4]);
  expect(await database.query('SELECT status FROM inbox_message ORDER BY id')).toEqual(
    ['success', 'success', 'success', 'success', 'failed', 'success'].map((status) => ({ status })),
  );
});
