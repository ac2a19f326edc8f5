// What an inbox asks of the database while there is nothing to do, seen by the server's own general log.
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { startInboxApp } from '../../support/inbox-app.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';
import { waitUntil } from '../../support/wait-until.js';

const watchMs = Number(process.env.QUIET_MS ?? 3_000);

let server: PrivateDatabase;
let database: TestDatabase;

beforeAll(async () => {
  server = await startPrivateDatabase();
  database = await migrated(await createTestDatabase('quiet', { serverUrl: server.url }));
  await database.query("SET GLOBAL log_output = 'TABLE'");
  await database.query('SET GLOBAL general_log = ON');
});
afterAll(async () => {
  await database.drop();
  await server.remove();
});

/** Statements that the server ran in `ms`, without those of this test. */
async function statementsIn(ms: number): Promise<string[]> {
  await database.query('TRUNCATE mysql.general_log');
  const until = performance.now() + ms;
  await waitUntil(() => performance.now() >= until, { what: 'the time to watch has passed', timeoutMs: ms + 5_000 });
  const rows = await database.query<{ argument: string }>(
    "SELECT CONVERT(argument USING utf8mb4) AS argument FROM mysql.general_log WHERE command_type IN ('Query', 'Execute')",
  );
  return rows.map((row) => row.argument).filter((sql) => !sql.includes('general_log'));
}

test('with consumption off the consumer sends nothing at all', async () => {
  const app = await startInboxApp(database, {
    inbox: { enabled: false, tick: 20, roundInterval: 50, recoveryInterval: 100 },
    handlers: { a: () => undefined },
  });
  try {
    expect(await statementsIn(watchMs)).toEqual([]);
  } finally {
    await app.close();
  }
});

test('an idle lane costs one look per round and nothing else', async () => {
  const app = await startInboxApp(database, {
    inbox: { enabled: true, tick: 50, roundInterval: 500, recoveryInterval: 60_000 },
    handlers: { a: () => undefined },
  });
  try {
    // The first pass of recovery comes with the start.
    await waitUntil(() => app.events('round').length >= 2, { what: 'the lane turns' });
    const rounds = app.events('round').length;
    const statements = await statementsIn(watchMs);
    const turned = app.events('round').length - rounds;
    expect(turned).toBeGreaterThan(1);
    expect(statements.filter((sql) => !/^SELECT CAST\(EXISTS/.test(sql))).toEqual([]);
    // One round may fall on either side of the first and the last look at the log.
    expect(Math.abs(statements.length - turned)).toBeLessThanOrEqual(1);
  } finally {
    await app.close();
  }
});
