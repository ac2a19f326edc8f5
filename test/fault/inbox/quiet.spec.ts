// What an inbox and an outbox ask of the database while there is nothing to do, seen by the server's own general log.
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { startInboxApp } from '../../support/inbox-app.js';
import { startOutboxApp } from '../../support/outbox-app.js';
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

/** What docs/architecture.md says that an idle instance sends: by timer, and how often per pass of it. */
const kinds = {
  look: /^SELECT CAST\(EXISTS\(.* m\.lane = (\d+) /,
  competingLook: /^SELECT 1 AS due FROM `inbox_message` .* m\.lane = (\d+) .* LIMIT 1$/,
  relayLook: /^SELECT 1 AS due FROM `outbox_message` .* LIMIT 1$/,
  recheck: /^SELECT .* FROM `?outbox_message`? .* m\.status = 'parked' AND m\.next_attempt_at <= .* LIMIT \d+$/,
  sharingWrite: /^INSERT INTO mailroom_instance /,
  sharingRead: /^SELECT .* FROM mailroom_instance$/,
  recoveryStart: /^START TRANSACTION$/,
  recoveryOrphans: /^SELECT .* m\.status = '(?:processing|sending)' AND m\.claimed_until <= .* FOR UPDATE SKIP LOCKED$/,
  recoveryEnd: /^COMMIT$/,
  recoveryGroups: /^SELECT name FROM mailroom_lease .* 'inbox:group:'/,
  recoveryHeld: /^SELECT .* m\.status = 'held' AND .* LIMIT 500$/,
  recoveryLanes: /^SELECT m\.lane AS lane FROM .* m\.lane >= \d+ ORDER BY m\.lane LIMIT 1$/,
  alarm: /^SELECT CAST\(\(?(?:SELECT )?COUNT\(\*\).*\(SELECT 1 AS one FROM /,
} as const;
type Kind = keyof typeof kinds | 'other';

const kindOf = (sql: string): Kind =>
  (Object.keys(kinds) as (keyof typeof kinds)[]).find((kind) => kinds[kind].test(sql)) ?? 'other';

interface Watched {
  readonly statements: readonly string[];
  readonly elapsedMs: number;
  of(kind: Kind): readonly string[];
}

/** Statements that the server ran in `watchMs` or a little more, without those of this test. */
async function watch(): Promise<Watched> {
  const startedAt = performance.now();
  await database.query('TRUNCATE mysql.general_log');
  await waitUntil(() => performance.now() - startedAt >= watchMs, {
    what: 'the time to watch has passed',
    timeoutMs: watchMs + 5_000,
  });
  const rows = await database.query<{ argument: string }>(
    "SELECT CONVERT(argument USING utf8mb4) AS argument FROM mysql.general_log WHERE command_type IN ('Query', 'Execute')",
  );
  const elapsedMs = performance.now() - startedAt;
  const statements = rows
    .map((row) => row.argument.replace(/\s+/g, ' ').trim())
    .filter((sql) => !sql.includes('general_log'));
  return { statements, elapsedMs, of: (kind) => statements.filter((sql) => kindOf(sql) === kind) };
}

test('with consumption off the consumer sends nothing at all', async () => {
  const app = await startInboxApp(database, {
    inbox: { enabled: false, tick: 20, roundInterval: 50, recoveryInterval: 100 },
    handlers: { a: () => undefined },
  });
  try {
    expect((await watch()).statements).toEqual([]);
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
    const { statements, of } = await watch();
    const turned = app.events('round').length - rounds;
    expect(turned).toBeGreaterThan(1);
    expect(statements.filter((sql) => kindOf(sql) !== 'look')).toEqual([]);
    // One round may fall on either side of the first and the last look at the log.
    expect(Math.abs(of('look').length - turned)).toBeLessThanOrEqual(1);
  } finally {
    await app.close();
  }
});

test('several idle lanes cost one look per round and lane, and recovery and sharing what the table of timers says', async () => {
  const recoveryInterval = 600;
  const ttl = 3_000;
  const app = await startInboxApp(database, {
    inbox: { enabled: true, tick: 50, roundInterval: 500, recoveryInterval, lanes: 3, lease: { ttl } },
    handlers: { a: () => undefined },
  });
  try {
    await waitUntil(() => app.events('round').length >= 6, { what: 'the lanes turn' });
    const rounds = app.events('round').length;
    const { of, elapsedMs } = await watch();
    const turned = app.events('round').slice(rounds);
    expect(of('other')).toEqual([]);
    for (const lane of [0, 1, 2]) {
      const looks = of('look').filter((sql) => kinds.look.exec(sql)?.[1] === String(lane));
      expect(looks.length).toBeGreaterThan(1);
      expect(Math.abs(looks.length - turned.filter((round) => round.lane === lane).length)).toBeLessThanOrEqual(1);
    }

    // A loop pauses after each pass, so more passes than this cannot be, and a pass may be cut by either end.
    const passes = (intervalMs: number) => Math.ceil(elapsedMs / intervalMs) + 1;
    const once = ['recoveryStart', 'recoveryOrphans', 'recoveryEnd', 'recoveryGroups', 'recoveryHeld'] as const;
    for (const kind of once) {
      expect(of(kind).length).toBeGreaterThan(0);
      expect(of(kind).length).toBeLessThanOrEqual(passes(recoveryInterval));
    }
    expect(of('recoveryLanes').length).toBeLessThanOrEqual(3 * passes(recoveryInterval));
    expect(of('alarm').length).toBeGreaterThan(0);
    expect(of('alarm').length).toBeLessThanOrEqual(2 * passes(recoveryInterval));
    for (const kind of ['sharingWrite', 'sharingRead'] as const) {
      expect(of(kind).length).toBeGreaterThan(0);
      expect(of(kind).length).toBeLessThanOrEqual(passes(ttl / 3));
    }
  } finally {
    await app.close();
  }
});

test('in competing mode an idle lane costs one look per round and nothing else', async () => {
  const app = await startInboxApp(database, {
    inbox: { enabled: true, mode: 'competing', lanes: 2, tick: 50, roundInterval: 500, recoveryInterval: 60_000 },
    handlers: { a: () => undefined },
  });
  try {
    await waitUntil(() => app.events('round').length >= 2, { what: 'it looks' });
    const rounds = app.events('round').length;
    const { statements, of, elapsedMs } = await watch();
    const turned = app.events('round').length - rounds;
    expect(turned).toBeGreaterThan(1);
    expect(statements.filter((sql) => kindOf(sql) !== 'competingLook')).toEqual([]);
    // A round looks at the lanes that are due: at both together, or at each by itself when they have drifted apart.
    expect(of('competingLook').length).toBeGreaterThanOrEqual(turned - 1);
    for (const lane of [0, 1]) {
      const looks = of('competingLook').filter((sql) => kinds.competingLook.exec(sql)?.[1] === String(lane));
      expect(looks.length).toBeGreaterThan(1);
      expect(looks.length).toBeLessThanOrEqual(Math.ceil(elapsedMs / 500) + 1);
    }
  } finally {
    await app.close();
  }
});

test('with the relay off the outbox sends nothing at all', async () => {
  const app = await startOutboxApp(database, {
    outbox: { enabled: false, pollInterval: 50, recoveryInterval: 100, parkRecheck: 1_000 },
    handlers: { a: () => undefined },
  });
  try {
    expect((await watch()).statements).toEqual([]);
  } finally {
    await app.close();
  }
});

test('an idle relay costs one look per poll, and recovery what the table of timers says', async () => {
  const recoveryInterval = 600;
  const app = await startOutboxApp(database, {
    outbox: { enabled: true, pollInterval: 500, recoveryInterval },
    handlers: { a: () => undefined },
  });
  try {
    await waitUntil(() => app.events('relay-pass').length >= 2, { what: 'the relay polls' });
    const before = app.events('relay-pass').length;
    const { of, elapsedMs } = await watch();
    const polled = app.events('relay-pass').length - before;
    expect(polled).toBeGreaterThan(1);
    expect(of('other')).toEqual([]);
    expect(Math.abs(of('relayLook').length - polled)).toBeLessThanOrEqual(1);
    const passes = Math.ceil(elapsedMs / recoveryInterval) + 1;
    for (const kind of [
      'recoveryStart',
      'recoveryOrphans',
      'recoveryEnd',
      'recheck',
      'recoveryHeld',
      'alarm',
    ] as const) {
      expect(of(kind).length).toBeGreaterThan(0);
      expect(of(kind).length).toBeLessThanOrEqual(passes);
    }
  } finally {
    await app.close();
  }
});
