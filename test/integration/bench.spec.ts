// The bench itself: its exit codes, what it writes, and that its verdict finds what is wrong. On the tests' servers, with
// runs of a second: the figures mean nothing here.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import type { Part } from '../bench/harness/part.js';
import { runPart } from '../bench/harness/run-part.js';
import { startWorker } from '../bench/harness/worker.js';
import { checkAnswers } from '../bench/intake/check-answers.js';
import type { LoadJob, LoadResult } from '../bench/load/load-job.js';
import { createTestDatabase, migrated, testServerUrl } from '../support/database.js';
import { testRedisUrl } from '../support/redis.js';

const script = fileURLToPath(new URL('../../scripts/bench.mjs', import.meta.url));

let folder: string;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'mailroom-bench-test-'));
});

afterEach(() => rmSync(folder, { recursive: true }));

function bench(...args: string[]) {
  const env = { ...process.env, NODE_OPTIONS: '', DATABASE_URL: testServerUrl(), REDIS_URL: testRedisUrl() };
  return spawnSync(process.execPath, [script, ...args], { encoding: 'utf8', env, timeout: 170_000 });
}

it.each([
  ['a part that does not exist', ['nosuch'], /there is no part 'nosuch'\. Parts: .*intake/],
  ['another database', ['intake', '--database', 'oracle'], /none of mariadb, mysql/],
  ['an unknown switch', ['--fast'], /--fast/],
  ['figures of a quick run for the page', ['intake', '--quick', '--record'], /leave out --quick/],
])('ends with 2 and a clear message for %s', (_case, args, message) => {
  const { status, stderr } = bench(...args);
  expect({ status, stderr }).toEqual({ status: 2, stderr: expect.stringMatching(message) });
});

it('tells its parts and switches', () => {
  const { status, stdout } = bench('--help');
  expect(status).toBe(0);
  expect(stdout).toMatch(/Parts: .*intake/);
});

it('measures the door beside its peers, and every 2xx is in the table', () => {
  const json = join(folder, 'figures.json');
  const { status, stdout, stderr } = bench('intake', '--quick', '--json', json);

  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  expect(stdout).toMatch(/d {2}intake .*\n[\s\S]*every 2xx is in the table exactly once.* ok /);
  const [entry] = JSON.parse(readFileSync(json, 'utf8'));
  expect(entry).toMatchObject({ part: 'intake', length: 'quick', machine: { node: process.versions.node } });
  expect(entry.figures.map(({ arm }: { arm: string }) => arm)).toEqual(
    expect.arrayContaining(['empty', 'save', 'insert', 'intake', 'repushed']),
  );
}, 120_000);

it('measures consuming, draining and recovering beside the same by hand and beside peers, and nothing is lost or doubled', () => {
  const json = join(folder, 'figures.json');
  const { status, stdout, stderr } = bench('inbox', 'outbox', 'recover', '--quick', '--json', json);

  expect({ status, stderr: status === 0 ? '' : stderr }).toEqual({ status: 0, stderr: '' });
  const entries = JSON.parse(readFileSync(json, 'utf8')) as {
    part: string;
    targets: { name: string }[];
    verdicts: { ok: boolean }[];
  }[];
  expect(entries.map(({ part }) => part)).toEqual(['inbox', 'outbox', 'recover']);
  expect(entries.flatMap(({ verdicts }) => verdicts.map(({ ok }) => ok))).not.toContain(false);
  const targets = entries.flatMap(({ targets }) => targets.map(({ name }) => name)).join('\n');
  for (const peer of ['by hand', 'BullMQ', 'graphile-worker']) {
    expect(targets).toMatch(new RegExp(`competing, nothing / ${peer}`));
    expect(targets).toMatch(new RegExp(`the relay / ${peer}`));
  }
  expect(stdout).toMatch(/SIGKILL of the lane's holder/);
}, 180_000);

const fakePart = (ok: boolean): Part => ({
  about: 'a part of this test',
  run: async ({ database }) => ({
    tables: [],
    targets: [],
    verdicts: [{ name: 'nothing is lost', ok, detail: database.name }],
    figures: [],
  }),
});

it.each([true, false])('a part is right if all its verdicts are: %s', async (ok) => {
  const page = pathToFileURL(join(folder, 'page.md'));
  writeFileSync(page, '# Page\n');
  const options = { length: 'quick', redisUrl: '', page, print: () => undefined, log: () => undefined } as const;

  expect(await runPart('fake', fakePart(ok), options)).toBe(ok);

  expect(readFileSync(page, 'utf8')).toContain(`| nothing is lost | ${ok ? 'ok' : 'FAILED'} |`);
});

it('at a fixed rate, latency counts from when a push was due: a slow server is not asked less', async () => {
  const server = createServer((request, response) => {
    request.resume();
    setTimeout(() => response.end('{}'), 50);
  });
  const load = startWorker(new URL('../bench/load/load.ts', import.meta.url));
  try {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const job: LoadJob = {
      origin: `http://127.0.0.1:${port}`,
      path: '/',
      connections: 1,
      warmUpMs: 0,
      measureMs: 600,
      ratePerSecond: 100,
      secret: `whsec_${Buffer.alloc(32).toString('base64')}`,
      prefix: 'due',
      duplicateShare: 0,
    };
    const { latency, answers } = await load.ask<LoadResult>(job);
    // All 60 are sent in the end, the last one, due after 590 ms, when those before it have taken 50 ms each.
    expect(answers.map(({ event }) => event)).toEqual(Array.from({ length: 60 }, (_, event) => event));
    expect(latency.max).toBeGreaterThan(2_000);
  } finally {
    await load.stop();
    await new Promise((resolve) => server.close(resolve));
  }
});

it('the verdict finds lost messages, doubled ones and wrong receipts', async () => {
  const database = await migrated(await createTestDatabase('bench_verdict'));
  try {
    await database.query(
      `INSERT INTO inbox_message (id, source, type, dedup_key, body, received_at, updated_at) VALUES
       (1, 'test', 'work', 'e-0', '{}', NULL, NULL), (2, 'test', 'work', 'e-1', '{}', NULL, NULL),
       (3, 'test', 'work', 'e-2', '{}', NULL, NULL), (4, 'other', 'work', 'e-2', '{}', NULL, NULL)`,
    );
    const answer = (event: number, id: string, duplicate = false, status = 200) => ({
      event,
      status,
      body: JSON.stringify({ id, duplicate }),
    });
    const answers = [
      answer(0, '1'),
      answer(0, '1', true),
      answer(0, '1'), // the second first copy
      answer(1, '9'), // another row's id
      answer(3, '7'), // not in the table
      answer(4, '8', false, 503), // not in the table, and not said to be
    ];

    expect(await checkAnswers(database, 'inbox_message', answers, (event) => `e-${event}`)).toEqual({
      accepted: 5,
      refused: 1,
      lost: 1,
      doubled: 1,
      wrong: 2,
    });
  } finally {
    await database.drop();
  }
});
