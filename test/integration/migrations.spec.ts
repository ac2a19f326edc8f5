// The first migration on the server of DATABASE_URL: its tables, its way back, and many processes at once.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { DataSource, type QueryRunner } from 'typeorm';
import { CreateMailroomTables1764547200000, runMigrationsExclusively } from '../../migrations/index.js';
import { startChild } from '../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../support/database.js';
import { committedSchema } from '../support/schema/committed-schema.js';
import { dumpSchema } from '../support/schema/dump-schema.js';
import { waitUntil } from '../support/wait-until.js';

const MIGRATION = 'CreateMailroomTables1764547200000';
const TABLES = [
  'inbox_message',
  'inbox_message_archive',
  'mailroom_instance',
  'mailroom_lease',
  'mailroom_order_key',
  'mailroom_processed',
  'mailroom_receiver',
  'mailroom_sequence',
  'mailroom_setting',
  'outbox_message',
  'outbox_message_archive',
  'replay_item',
  'replay_run',
];

const migration = new CreateMailroomTables1764547200000();

let database: TestDatabase;
const extraDatabases: TestDatabase[] = [];
const dataSources: DataSource[] = [];

async function another(name: string, charset?: 'latin1'): Promise<TestDatabase> {
  const created = await createTestDatabase(name, charset === undefined ? {} : { charset });
  extraDatabases.push(created);
  return created;
}

async function connect(to: TestDatabase): Promise<DataSource> {
  const dataSource = await new DataSource(to.options).initialize();
  dataSources.push(dataSource);
  return dataSource;
}

async function onRunner<T>(dataSource: DataSource, work: (runner: QueryRunner) => Promise<T>): Promise<T> {
  const runner = dataSource.createQueryRunner();
  try {
    return await work(runner);
  } finally {
    await runner.release();
  }
}

async function tablesOf(of: TestDatabase): Promise<string[]> {
  const rows = await of.query<{ name: string }>(
    `SELECT table_name AS name FROM information_schema.tables
     WHERE table_schema = DATABASE() AND table_name <> 'migrations' ORDER BY table_name`,
  );
  return rows.map(({ name }) => name);
}

beforeAll(async () => {
  database = await migrated(await createTestDatabase('migrations'));
});

afterEach(async () => {
  await database.query('DELETE FROM inbox_message');
  await database.query('DELETE FROM outbox_message');
  for (const dataSource of dataSources.splice(0)) await dataSource.destroy();
  for (const created of extraDatabases.splice(0)) await created.drop();
});

afterAll(() => database.drop());

describe('up and down', () => {
  test('create every table, drop every table, and create them again', async () => {
    const fresh = await another('updown');
    const dataSource = await connect(fresh);
    await dataSource.runMigrations();
    expect(await tablesOf(fresh)).toEqual(TABLES);
    await dataSource.undoLastMigration();
    expect(await tablesOf(fresh)).toEqual([]);
    await dataSource.runMigrations();
    expect(await tablesOf(fresh)).toEqual(TABLES);
  });

  test.each(['each', 'none', 'all'] as const)('work in the transaction mode "%s" of the data source', async (mode) => {
    const fresh = await another('txmode');
    const dataSource = await new DataSource({ ...fresh.options, migrationsTransactionMode: mode }).initialize();
    dataSources.push(dataSource);
    expect(await runMigrationsExclusively(dataSource)).toEqual([MIGRATION]);
    await dataSource.undoLastMigration({ transaction: mode });
    expect(await tablesOf(fresh)).toEqual([]);
  });

  test('a run that was cut off in the middle is completed by the next one, in both directions', async () => {
    const fresh = await migrated(await another('cutoff'));
    const dataSource = await connect(fresh);
    await fresh.query('DROP TABLE outbox_message, mailroom_setting');
    await onRunner(dataSource, (runner) => migration.up(runner));
    // Cut off after its last statement, before TypeORM wrote that it ran.
    await onRunner(dataSource, (runner) => migration.up(runner));
    expect(await tablesOf(fresh)).toEqual(TABLES);
    expect(await fresh.query('SELECT name, value FROM mailroom_setting')).toEqual([
      { name: 'schema_version', value: '1' },
    ]);
    await fresh.query('DROP TABLE inbox_message, mailroom_setting');
    await onRunner(dataSource, (runner) => migration.down(runner));
    expect(await tablesOf(fresh)).toEqual([]);
  });

  test('up refuses a database where a table of that name belongs to somebody else, and leaves it alone', async () => {
    const fresh = await another('foreign');
    await fresh.query('CREATE TABLE outbox_message (id INT PRIMARY KEY, note TEXT)');
    const dataSource = await connect(fresh);
    const up = onRunner(dataSource, (runner) => migration.up(runner));
    await expect(up).rejects.toThrow(/already has a table outbox_message without .*open_unit/);
    expect(await fresh.query('SELECT note FROM outbox_message')).toEqual([]);
  });

  test('the ordinary TypeORM CLI runs and reverts it', async () => {
    const fresh = await another('cli');
    const typeorm = (command: string) => {
      const [loader, cli, source] = [
        new URL('../support/typescript/register.mjs', import.meta.url).href,
        fileURLToPath(new URL('../../node_modules/typeorm/cli.js', import.meta.url)),
        fileURLToPath(new URL('../../migrations/data-source.ts', import.meta.url)),
      ];
      const env = { ...process.env, DATABASE_URL: fresh.url, NODE_OPTIONS: '' };
      const args = ['--import', loader, cli, `migration:${command}`, '-d', source];
      return spawnSync(process.execPath, args, { encoding: 'utf8', env });
    };
    expect(typeorm('run')).toMatchObject({ status: 0 });
    expect(typeorm('show').stdout).toContain(`[X] 1 ${MIGRATION}`);
    expect(await tablesOf(fresh)).toEqual(TABLES);
    expect(typeorm('revert')).toMatchObject({ status: 0 });
    expect(await tablesOf(fresh)).toEqual([]);
  });
});

describe('down with unfinished messages', () => {
  const unfinished = [
    ['inbox_message', 'pending'],
    ['inbox_message', 'processing'],
    ['inbox_message', 'held'],
    ['outbox_message', 'pending'],
    ['outbox_message', 'sending'],
    ['outbox_message', 'parked'],
    ['outbox_message', 'held'],
  ] as const;
  const insert = (into: TestDatabase, table: string, status: string) =>
    table === 'inbox_message'
      ? into.query(`INSERT INTO inbox_message (source, type, body, status) VALUES ('s', 't', '', ?)`, [status])
      : into.query(`INSERT INTO outbox_message (message_id, payload, status) VALUES (UUID(), '', ?)`, [status]);

  test.each(unfinished)('is refused while %s has one that is %s', async (table, status) => {
    await insert(database, table, status);
    const dataSource = await connect(database);
    const down = onRunner(dataSource, (runner) => migration.down(runner));
    await expect(down).rejects.toThrow(
      new RegExp(`messages are not finished \\(${table} has 1\\).*MAILROOM_FORCE_DOWN=true`),
    );
    expect(await tablesOf(database)).toEqual(TABLES);
  });

  test('goes ahead when only finished ones are left', async () => {
    const fresh = await migrated(await another('finished'));
    await insert(fresh, 'inbox_message', 'success');
    await insert(fresh, 'inbox_message', 'failed');
    await insert(fresh, 'outbox_message', 'sent');
    await insert(fresh, 'outbox_message', 'dead');
    await (await connect(fresh)).undoLastMigration();
    expect(await tablesOf(fresh)).toEqual([]);
  });

  test('goes ahead with MAILROOM_FORCE_DOWN=true, and with nothing else', async () => {
    const fresh = await migrated(await another('force'));
    await insert(fresh, 'inbox_message', 'pending');
    const dataSource = await connect(fresh);
    try {
      process.env.MAILROOM_FORCE_DOWN = '1';
      await expect(dataSource.undoLastMigration()).rejects.toThrow('messages are not finished');
      process.env.MAILROOM_FORCE_DOWN = 'true';
      await dataSource.undoLastMigration();
    } finally {
      delete process.env.MAILROOM_FORCE_DOWN;
    }
    expect(await tablesOf(fresh)).toEqual([]);
  });
});

describe('several at once', () => {
  test('two processes start together: one migrates, the other finds nothing to do', async () => {
    const fresh = await another('processes');
    const start = () =>
      startChild(new URL('../support/fixtures/migrate.ts', import.meta.url), { env: { DATABASE_URL: fresh.url } });
    const children = [start(), start()];
    for (const child of children) await child.line('connected', 30_000);
    for (const child of children) child.send('go');
    const ran = await Promise.all(children.map((child) => child.line(/^ran /, 30_000)));
    expect(ran.sort()).toEqual([`ran ["${MIGRATION}"]`, 'ran []']);
    expect(await Promise.all(children.map((child) => child.ended))).toEqual(Array(2).fill({ code: 0, signal: null }));
    expect(await tablesOf(fresh)).toEqual(TABLES);
  });

  test('five connections start together: one migrates, all succeed', async () => {
    const fresh = await another('connections');
    const five = await Promise.all(Array.from({ length: 5 }, () => connect(fresh)));
    const ran = await Promise.all(five.map((dataSource) => runMigrationsExclusively(dataSource)));
    expect(ran.flat()).toEqual([MIGRATION]);
    expect(await fresh.query('SELECT name FROM migrations')).toEqual([{ name: MIGRATION }]);
  });

  test('up and down wait while another process holds the migration lock of this database', async () => {
    const fresh = await another('lock');
    const dataSource = await connect(fresh);
    const lock = `CONCAT('mailroom_migration_', LEFT(SHA2(DATABASE(), 256), 40))`;
    for (const [direction, before, after] of [
      ['up', [], TABLES],
      ['down', TABLES, []],
    ] as const) {
      await fresh.query(`SELECT GET_LOCK(${lock}, 0)`);
      const working = onRunner(dataSource, (runner) => migration[direction](runner));
      await waitUntil(
        async () => {
          const rows = await fresh.query<{ Info: string | null; db: string | null }>('SHOW FULL PROCESSLIST');
          return rows.some(({ Info, db }) => db === fresh.name && Info?.startsWith('SELECT GET_LOCK') === true);
        },
        { what: `${direction} waits for the lock` },
      );
      expect(await tablesOf(fresh)).toEqual(before);
      await fresh.query(`SELECT RELEASE_LOCK(${lock})`);
      await working;
      expect(await tablesOf(fresh)).toEqual(after);
    }
  });

  test('the lock is free again after a failure', async () => {
    const fresh = await another('failure');
    await fresh.query('CREATE TABLE replay_item (id INT PRIMARY KEY)');
    const first = await connect(fresh);
    await onRunner(first, async (runner) => {
      await expect(migration.up(runner)).rejects.toThrow('already has a table replay_item');
      // The first connection lives on: only a lock that it gave back lets the second one in.
      await fresh.query('DROP TABLE replay_item');
      await onRunner(await connect(fresh), (other) => migration.up(other));
    });
    expect(await tablesOf(fresh)).toEqual(TABLES);
  });

  test('a pool of one connection is enough', async () => {
    const fresh = await another('single');
    const dataSource = await new DataSource({ ...fresh.options, poolSize: 1 }).initialize();
    dataSources.push(dataSource);
    expect(await runMigrationsExclusively(dataSource)).toEqual([MIGRATION]);
  });
});

describe('the tables', () => {
  test('take what a writer that knows only source, type and body inserts: it is pending and due at once', async () => {
    await database.query(`INSERT INTO inbox_message (source, type, body) VALUES ('old', 'order.paid', '{}')`);
    const rows = await database.query(
      `SELECT status, attempts, lane, replay_count, dedup_key, open_entity, next_attempt_at <= UTC_TIMESTAMP(3) AS due
       FROM inbox_message WHERE source = 'old'`,
    );
    expect(rows).toEqual([
      { status: 'pending', attempts: 0, lane: 0, replay_count: 0, dedup_key: null, open_entity: null, due: 1 },
    ]);
  });

  test('have no column beyond ids, keys and bodies that an old writer must know', async () => {
    const rows = await database.query<{ required: string }>(
      `SELECT CONCAT(table_name, '.', column_name) AS required FROM information_schema.columns
       WHERE table_schema = DATABASE() AND table_name IN ('inbox_message', 'outbox_message')
         AND is_nullable = 'NO' AND column_default IS NULL AND extra NOT LIKE '%auto_increment%'
       ORDER BY required`,
    );
    expect(rows.map(({ required }) => required)).toEqual([
      'inbox_message.body',
      'outbox_message.message_id',
      'outbox_message.payload',
    ]);
  });

  test('have no default that calls a clock', async () => {
    const rows = await database.query<{ name: string }>(
      `SELECT column_name AS name FROM information_schema.columns
       WHERE table_schema = DATABASE() AND table_name <> 'migrations'
         AND (column_default LIKE '%(%' OR column_default LIKE '%current%' OR extra LIKE '%on update%' OR extra LIKE '%GENERATED%')`,
    );
    expect(rows).toEqual([]);
  });

  test('tell dedup keys apart by case, accents and trailing blanks', async () => {
    const keys = ['abc', 'ABC', 'äbc', 'abc ', 'abc  ', 'abc\0', ' abc', 'a\u0308bc'];
    const insert = (key: string) =>
      database.query(`INSERT INTO inbox_message (source, type, dedup_key, body) VALUES ('keys', 't', ?, '')`, [
        Buffer.from(key),
      ]);
    for (const key of keys) await insert(key);
    for (const key of keys) await expect(insert(key)).rejects.toMatchObject({ errno: 1062, message: /inbox_dedup/ });
    expect(await database.query(`SELECT COUNT(*) AS messages FROM inbox_message`)).toEqual([{ messages: keys.length }]);
  });

  test('store any number of messages without a dedup key', async () => {
    const rows = `('none', 't', NULL, ''), ('none', 't', NULL, ''), ('none', 't', NULL, '')`;
    await database.query(`INSERT INTO inbox_message (source, type, dedup_key, body) VALUES ${rows}`);
    expect(await database.query('SELECT COUNT(*) AS messages FROM inbox_message')).toEqual([{ messages: 3 }]);
  });

  test('keep 4-byte characters in a database whose default is latin1', async () => {
    const latin = await migrated(await another('latin', 'latin1'));
    const text = '订单 🚚 Übergrößenträger';
    await latin.query(
      `INSERT INTO inbox_message (source, type, body, headers, error_message, claimed_by, dedup_key)
       VALUES ('s', 't', ?, JSON_OBJECT('x', ?), ?, ?, ?)`,
      [Buffer.from(text), text, text, text, Buffer.from(text)],
    );
    const [row] = await latin.query<Record<string, string | Buffer>>(
      `SELECT body, JSON_UNQUOTE(JSON_EXTRACT(headers, '$.x')) AS header, error_message, claimed_by, dedup_key
       FROM inbox_message`,
    );
    expect(Object.values(row ?? {}).map(String)).toEqual(Array(5).fill(text));
  });

  test('refuse headers that are no JSON', async () => {
    const insert = database.query(
      `INSERT INTO inbox_message (source, type, body, headers) VALUES ('s', 't', '', '{"a":')`,
    );
    await expect(insert).rejects.toThrow(/json|CONSTRAINT/i);
  });
});

describe('the schema', () => {
  test('is the one that is committed (UPDATE_SCHEMA=1 rewrites it)', async () => {
    const current = await dumpSchema(database);
    expect(await committedSchema(database.flavour, current)).toBe(current);
  });

  test('can be created from its committed text', async () => {
    const current = await dumpSchema(database);
    const copy = await another('copy');
    for (const statement of current.split(';\n').filter((text) => text.trim() !== '')) await copy.query(statement);
    expect(await dumpSchema(copy)).toBe(current);
  });
});

test('npm run migration says what is wrong before it starts anything', () => {
  const script = fileURLToPath(new URL('../../scripts/migration.mjs', import.meta.url));
  const run = (args: string[], env: Record<string, string>) =>
    spawnSync(process.execPath, [script, ...args], { encoding: 'utf8', env: { PATH: process.env.PATH ?? '', ...env } });
  expect(run(['undo'], {})).toMatchObject({
    status: 2,
    stderr: expect.stringMatching(/run\|revert\|show.*not "undo"/),
  });
  expect(run(['run'], {})).toMatchObject({ status: 2, stderr: expect.stringContaining('DATABASE_URL is not set') });
});
