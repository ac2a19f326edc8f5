// The built demo, as `npm run demo` starts it, on the servers of the tests: what it proves, and what it leaves behind.
import { readdirSync, readFileSync } from 'node:fs';
import { createConnection } from 'mysql2/promise';
import type { Report } from '../../src/reference-app/demo/report.js';
import { type Child, startChild } from '../support/child.js';
import { testServerUrl } from '../support/database.js';
import { testRedisUrl } from '../support/redis.js';
import { waitUntil } from '../support/wait-until.js';

const script = new URL('../../dist/src/reference-app/demo/main.js', import.meta.url);
const startTimeoutMs = 60_000;

let demo: Child | undefined;
afterEach(async () => {
  await demo?.kill();
  demo = undefined;
});

function startDemo(): Child {
  demo = startChild(script, {
    args: ['--json'],
    env: { DATABASE_URL: testServerUrl(), REDIS_URL: testRedisUrl() },
  });
  return demo;
}

/** Databases whose tables belong to a demo that runs; others may run on the same server at the same time. */
async function demoDatabases(): Promise<Set<string>> {
  const connection = await createConnection(testServerUrl());
  try {
    const [rows] = await connection.query("SHOW DATABASES LIKE 'mailroom\\_demo\\_%'");
    return new Set((rows as Record<string, string>[]).flatMap((row) => Object.values(row)));
  } finally {
    await connection.end();
  }
}

/** The database that one of the demo's instances was given. */
function databaseOf(pid: number): string | null {
  const environment = readFileSync(`/proc/${pid}/environ`, 'utf8');
  return /DATABASE_URL=[^\0]*\/(mailroom_demo_[0-9a-f]+)\0/.exec(environment)?.[1] ?? null;
}

/** Field 4 of /proc/<pid>/stat is the parent; the name before it may hold blanks and parentheses. */
function parentOf(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
  } catch {
    // It has ended since the folder was listed.
    return null;
  }
}

const childrenOf = (pid: number): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((other) => Number.isInteger(other) && parentOf(other) === pid);

/** Instances of this demo, also those that were started for others on the way. */
const survivors = (database: string): number[] =>
  readdirSync('/proc')
    .map(Number)
    .filter((pid) => {
      try {
        return Number.isInteger(pid) && databaseOf(pid) === database;
      } catch {
        // It has ended since the folder was listed, or is none of ours.
        return false;
      }
    });

/** Both instances run and have their database. */
async function databaseOfDemo({ pid }: Child): Promise<string> {
  return waitUntil(
    () => {
      const pids = childrenOf(pid);
      return pids.length === 2 && pids[0] !== undefined && databaseOf(pids[0]);
    },
    { what: 'the demo has two instances', timeoutMs: startTimeoutMs },
  );
}

test('over crashes and a kill the demo loses nothing, applies nothing twice, fails only what it planned, and leaves nothing', async () => {
  const child = startDemo();
  const database = await databaseOfDemo(child);
  expect(await demoDatabases()).toContain(database);
  expect(await child.ended).toEqual({ code: 0, signal: null });
  const report = JSON.parse(child.stdout) as Report;
  expect(report).toMatchObject({ lost: 0, appliedTwice: 0, unacknowledged: 0, unfinished: 0, problems: [] });
  expect(report.failed).toBe(report.plannedFailures);
  expect(report.plannedFailures).toBeGreaterThan(0);
  expect(report.received).toBeGreaterThan(1_000);
  expect(report.success + report.failed).toBe(report.received - report.duplicates + report.storedUnanswered);
  // The poison once per attempt, and the instance that was killed while it worked.
  expect(report).toMatchObject({ crashed: 4, killed: 1, replayed: 1 });
  expect(report).toMatchObject({ statuses: { success: expect.any(Number), failed: report.plannedFailures } });
  // 60 chat messages, and a reservation for each order that was paid.
  expect(report).toMatchObject({ outboxUnsent: 0, outboxDead: 0 });
  expect(report.outboxSent).toBeGreaterThan(100);
  expect(survivors(database)).toEqual([]);
  expect(await demoDatabases()).not.toContain(database);
});

test.each<[string, string | null]>([
  ['while its instances start', null],
  ['while it pushes', 'github'],
])('Ctrl-C %s ends the demo with code 130, without a process or a database left', async (_when, progress) => {
  const child = startDemo();
  const database = await databaseOfDemo(child);
  if (progress !== null) {
    const what = `the demo shows ${progress}`;
    await waitUntil(() => child.stderr.toLowerCase().includes(progress), { what, timeoutMs: startTimeoutMs });
  }
  child.signal('SIGINT');
  expect(await child.ended).toEqual({ code: 130, signal: null });
  expect(child.stdout).toBe('');
  expect(survivors(database)).toEqual([]);
  expect(await demoDatabases()).not.toContain(database);
});
