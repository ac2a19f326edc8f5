// What an application says about its server and its pool when it starts, on a server whose settings are changed for real,
// and what it refuses; what twenty starts and stops leave behind. In this process.
import { jest } from '@jest/globals';
import { type DynamicModule, type INestApplication, Logger } from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { dialectOf, serverChecks } from '../../../src/database/index.js';
import {
  InboxHandler,
  InboxModule,
  localTransport,
  OutboxHandler,
  OutboxModule,
  ReplayModule,
  RetentionModule,
} from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { opened } from '../../support/open-resources.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';

let server: PrivateDatabase;
let database: TestDatabase;
const closing: (() => Promise<void>)[] = [];
beforeAll(async () => {
  server = await startPrivateDatabase('like-the-tests');
  database = await migrated(await createTestDatabase('start_up', { serverUrl: server.url }));
});
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
  jest.restoreAllMocks();
});
afterAll(async () => {
  await database.drop();
  await server.remove();
});

class Handlers {
  @InboxHandler('t', { source: 's' })
  take(): void {}

  @OutboxHandler('t')
  send(): void {}
}

const inbox = (more: object = {}) =>
  InboxModule.forRoot({ enabled: true, shutdown: { readinessDelay: 0 }, sources: { s: { type: 't' } }, ...more });
const outbox = (more: object = {}) =>
  OutboxModule.forRoot({ enabled: true, transports: { local: localTransport() }, route: () => 'local', ...more });

async function start(modules: DynamicModule[], dataSource: object = {}): Promise<INestApplication> {
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0, ...dataSource }),
      ScheduleModule.forRoot(),
      ...modules,
    ],
    providers: [Handlers],
  }).compile();
  const app = module.createNestApplication();
  const close = async () => {
    await app.close();
    closed();
  };
  const closed = opened({ what: 'an application', close });
  closing.push(close);
  await app.init();
  return app;
}

interface Report {
  readonly msg: string;
  readonly toDo?: readonly string[];
  readonly ok: Readonly<Record<string, string>>;
}

/** The one line about the start. */
async function reportOf(modules: DynamicModule[], dataSource: object = {}): Promise<Report> {
  const lines: unknown[] = [];
  const keep = (line: unknown) => void lines.push(line);
  jest.spyOn(Logger.prototype, 'warn').mockImplementation(keep);
  jest.spyOn(Logger.prototype, 'log').mockImplementation(keep);
  await start(modules, dataSource);
  const reports = lines.filter((line) => `${(line as Report | null)?.msg}`.startsWith('start-up checks'));
  expect(reports).toHaveLength(1);
  return reports[0] as Report;
}

const settings = async (changes: Readonly<Record<string, string | number>>) => {
  for (const [name, value] of Object.entries(changes)) await database.query(`SET GLOBAL ${name} = ?`, [value]);
};

test('a server that keeps what it acknowledges, and a pool that is large enough, are one line without a warning', async () => {
  await settings({ max_allowed_packet: 16 * 1024 * 1024, innodb_flush_log_at_trx_commit: 1, sync_binlog: 1 });
  const report = await reportOf([inbox({ lanes: 2 }), outbox({ concurrency: 4 })], { poolSize: 10 });
  expect(report.msg).toBe('start-up checks: all is well');
  expect(report.ok).toMatchObject({
    version: expect.stringMatching(/^(mysql|mariadb) \d+\.\d+.*, Node\.js v\d+/),
    durability: expect.stringContaining('innodb_flush_log_at_trx_commit = 1'),
    clock: expect.stringMatching(/^\d+ ms between/),
    'time-zone': expect.stringContaining('time_zone = '),
    'sql-mode': expect.stringContaining('STRICT_'),
    isolation: expect.stringContaining('for the application'),
    packet: 'max_allowed_packet = 16 MiB',
    pool: 'inbox.lanes 2 + outbox.concurrency 4 at once, poolSize 10',
  });
});

test('each setting that weakens a promise is named with its value and what to do', async () => {
  const isolation = server.flavour === 'mysql' ? 'transaction_isolation' : 'tx_isolation';
  await settings({
    innodb_flush_log_at_trx_commit: 2,
    sql_mode: '',
    time_zone: '+08:00',
    max_allowed_packet: 1_048_576,
    [isolation]: 'SERIALIZABLE',
  });
  try {
    const { msg, toDo = [] } = await reportOf([outbox({ concurrency: 9 }), inbox({ lanes: 2 })], { poolSize: 10 });
    expect(msg).toBe('start-up checks: 6 of 8 need a look');
    const about = (check: string) => toDo.find((line) => line.startsWith(`${check}: `));
    expect(about('durability')).toContain('innodb_flush_log_at_trx_commit = 2');
    expect(about('durability')).toContain('set innodb_flush_log_at_trx_commit = 1');
    expect(about('sql-mode')).toMatch(/sql_mode = \S+; what handlers write is cut/);
    expect(about('time-zone')).toContain('time_zone = +08:00');
    expect(about('packet')).toContain('max_allowed_packet = 1 MiB; ');
    expect(about('isolation')).toContain('SERIALIZABLE');
    expect(about('pool')).toContain('inbox.lanes 2 at once, poolSize 10');
  } finally {
    await settings({
      innodb_flush_log_at_trx_commit: 1,
      sql_mode: 'STRICT_TRANS_TABLES',
      time_zone: 'SYSTEM',
      max_allowed_packet: 16 * 1024 * 1024,
      [isolation]: 'REPEATABLE-READ',
    });
  }
});

test.each([
  [-60_000, 'warn'],
  [60_000, 'warn'],
  [0, 'ok'],
])('a database clock that is %i ms off: %s', async (offMs, status) => {
  const row = { flush: '1', binlog: '0', sync: '1', packet: '16777216', micros: String((Date.now() + offMs) * 1_000) };
  const session = { zone: 'SYSTEM', sqlMode: 'STRICT_TRANS_TABLES', isolation: 'REPEATABLE-READ' };
  const checks = await serverChecks(
    { rows: async () => [row] as never },
    { query: async () => [session] as never },
    dialectOf('8.4.0'),
  );
  expect(checks.find(({ check }) => check === 'clock')).toMatchObject({ status });
});

test.each<[string, () => DynamicModule[]]>([
  ['InboxModule', () => [inbox(), inbox({ lanes: 2 })]],
  ['OutboxModule', () => [outbox(), outbox({ concurrency: 2 })]],
  ['ReplayModule', () => [ReplayModule.forRoot({}), ReplayModule.forRoot({ maxReplays: 3 })]],
  ['RetentionModule', () => [RetentionModule.forRoot({}), RetentionModule.forRoot({ success: '1d' })]],
])('a second %s stops the start-up', async (name, modules) => {
  await expect(start(modules())).rejects.toThrow(
    `${name}: got nothing; it is imported twice: call ${name}.forRoot once`,
  );
});

test('C117 twenty starts and stops leave no listener, no socket and no timer behind', async () => {
  jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  jest.spyOn(Logger.prototype, 'log').mockImplementation(() => undefined);
  const all = () => [inbox(), outbox(), ReplayModule.forRoot({}), RetentionModule.forRoot({})];
  const counts = () => ({
    listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
    resources: process.getActiveResourcesInfo().filter((name) => /Socket|TCP|Timeout/.test(name)).length,
  });
  const cycle = async () => {
    const app = await start(all());
    await app.close();
  };
  await cycle();
  const before = counts();
  for (let turn = 0; turn < 20; turn++) await cycle();
  const after = counts();
  expect(after.listeners).toBe(before.listeners);
  expect(after.resources).toBeLessThan(before.resources + 10);
});
