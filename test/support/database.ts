import { randomBytes } from 'node:crypto';
import { type Connection, createConnection } from 'mysql2/promise';
import { DataSource, type DataSourceOptions } from 'typeorm';
import { mailroomMigrations, runMigrationsExclusively } from '../../migrations/index.js';
import { ledger, opened } from './open-resources.js';

/** Which of the two servers a test runs on. */
export type Flavour = 'mysql' | 'mariadb';

/** A database of its own for one test file. */
export interface TestDatabase {
  readonly name: string;
  /** With the database's name as its path. */
  readonly url: string;
  readonly flavour: Flavour;
  /** For `new DataSource(...)` or `TypeOrmModule.forRoot(...)`: mailroom's migrations, at most ten connections. */
  readonly options: Extract<DataSourceOptions, { type: 'mysql' | 'mariadb' }>;
  /**
   * Asks over a connection of its own, in autocommit; all calls share it and run one after the other.
   * Instants come as strings, integers as numbers (beyond 2^53 as strings), the same on both servers.
   */
  query<Row = Record<string, unknown>>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  /**
   * Drops it and closes the connection of `query`. A second call does nothing.
   *
   * @throws Error when a transaction is still open on one of its tables.
   */
  drop(): Promise<void>;
}

export interface TestDatabaseOptions {
  /** Charset of the database, for tables that name none. Default: the server's. */
  readonly charset?: 'latin1' | 'utf8mb3' | 'utf8mb4';
  /** Where to create it, without a database. Default: `DATABASE_URL`, else root on 127.0.0.1:3306. */
  readonly serverUrl?: string;
}

// A metadata lock that a forgotten transaction holds must not hang the whole run.
const DROP_WAIT_SECONDS = 5;

/** The server that the tests run on: `DATABASE_URL` without a database, else root without a password on 127.0.0.1:3306. */
export function testServerUrl(): string {
  const url = new URL(process.env.DATABASE_URL || 'mysql://root@127.0.0.1:3306/');
  url.pathname = '/';
  return url.href;
}

/** Which kind of server that is. */
export function testServerFlavour(): Promise<Flavour> {
  return onServer(testServerUrl(), flavourOf);
}

/**
 * Creates an empty database `mailroom_test_<name>_<random>`. Drop it in `afterAll`: the leak check fails a file that
 * does not.
 *
 * @param name what the test file is about, for people who look at the server: `[a-z0-9_]`, at most 24 characters
 */
export async function createTestDatabase(name: string, options: TestDatabaseOptions = {}): Promise<TestDatabase> {
  if (!/^[a-z0-9_]{1,24}$/.test(name)) throw new Error(`createTestDatabase: "${name}" is not [a-z0-9_]{1,24}`);
  const { charset, serverUrl = testServerUrl() } = options;
  const database = `mailroom_test_${name}_${randomBytes(5).toString('hex')}`;
  const flavour = await onServer(serverUrl, async (connection) => {
    await connection.query(`CREATE DATABASE ${database}${charset === undefined ? '' : ` CHARACTER SET ${charset}`}`);
    return flavourOf(connection);
  });
  ledger().databases.push({ name: database, serverUrl });
  return testDatabase(database, serverUrl, flavour);
}

/** Runs mailroom's migrations on the database and returns it: `await migrated(await createTestDatabase('intake'))`. */
export async function migrated(database: TestDatabase): Promise<TestDatabase> {
  const dataSource = await new DataSource(database.options).initialize();
  try {
    await runMigrationsExclusively(dataSource);
  } finally {
    await dataSource.destroy();
  }
  return database;
}

function testDatabase(name: string, serverUrl: string, flavour: Flavour): TestDatabase {
  const url = new URL(name, serverUrl).href;
  let connecting: Promise<Connection> | undefined;
  const closed = opened({ what: `database ${name}`, close: () => drop(true) });

  async function drop(force = false): Promise<void> {
    await connecting?.then((connection) => connection.end()).catch(() => undefined);
    connecting = undefined;
    await onServer(serverUrl, async (connection) => {
      if (force) await killConnections(connection, name);
      await connection.query(`SET SESSION lock_wait_timeout = ${DROP_WAIT_SECONDS}`);
      await connection.query(`DROP DATABASE IF EXISTS ${name}`);
    });
    closed();
  }

  /** Another one is opened for the next question when this one is cut off, as by a test that restarts the server. */
  function connect(): Promise<Connection> {
    const opening = createConnection({ uri: url, dateStrings: true, supportBigNumbers: true });
    const lost = () => {
      if (connecting === opening) connecting = undefined;
    };
    opening.then((connection) => connection.on('error', lost), lost);
    return opening;
  }

  return {
    name,
    url,
    flavour,
    options: { type: 'mysql', url, migrations: mailroomMigrations(), poolSize: 10 },
    async query<Row>(sql: string, values: readonly unknown[] = []): Promise<Row[]> {
      connecting ??= connect();
      const [rows] = await (await connecting).query(sql, [...values]);
      return rows as Row[];
    },
    drop: () => drop(),
  };
}

async function killConnections(connection: Connection, database: string): Promise<void> {
  const [rows] = await connection.query('SHOW FULL PROCESSLIST');
  for (const { Id, db } of rows as { Id: number; db: string | null }[]) {
    // It may have ended by itself since.
    if (db === database) await connection.query('KILL ?', [Id]).catch(() => undefined);
  }
}

async function flavourOf(connection: Connection): Promise<Flavour> {
  const [rows] = await connection.query('SELECT VERSION() AS version');
  return /mariadb/i.test((rows as { version: string }[])[0]?.version ?? '') ? 'mariadb' : 'mysql';
}

async function onServer<T>(serverUrl: string, work: (connection: Connection) => Promise<T>): Promise<T> {
  const connection = await createConnection(serverUrl);
  try {
    return await work(connection);
  } finally {
    await connection.end();
  }
}
