// docs/operations.md and docs/tuning.md against the code: the names of the start-up checks, the defaults of the shutdown, and
// the worked example with the functions that it shows.
import { readFileSync } from 'node:fs';
import { dialectOf, serverChecks } from '../../src/database/index.js';
import { resolveInboxOptions } from '../../src/inbox/inbox-options.js';
import { localTransport } from '../../src/index.js';
import { resolveOutboxOptions } from '../../src/outbox/outbox-options.js';
import { codeBlocks, docProject } from '../support/doc-examples.js';

const page = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
const operations = page('operations.md');

test('every start-up check is in the table, and no other', async () => {
  const answer = {
    flush: '1',
    binlog: '0',
    sync: '1',
    packet: '16777216',
    micros: '0',
    zone: 'SYSTEM',
    sqlMode: '',
    isolation: 'READ-COMMITTED',
  };
  const checks = await serverChecks(
    { rows: async () => [answer] as never },
    { query: async () => [answer] as never },
    dialectOf('8.4.0'),
  );
  const table = operations.slice(
    operations.indexOf('## What the start checks'),
    operations.indexOf('These stop the start'),
  );
  const named = [...table.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, name]) => name);
  expect(named).toEqual([...checks.map(({ check }) => check), 'pool']);
});

test('the budget and the delay are those of the options', () => {
  const inbox = resolveInboxOptions({ sources: {} }).shutdown;
  const outbox = resolveOutboxOptions({ transports: { local: localTransport() }, route: () => 'local' }).shutdown;
  expect([inbox.deadline, outbox.deadline, inbox.readinessDelay]).toEqual([25_000, 25_000, 5_000]);
  expect(operations).toContain('`shutdown.deadline` (25 s)');
  expect(operations).toContain('`inbox.shutdown.readinessDelay` (5 s)');
});

test('the reference application stops as the page shows it', () => {
  const [, shown] = /```ts\n(app\.enableShutdownHooks[^\n]*)\n```/.exec(operations) ?? [];
  expect(readFileSync(new URL('../../src/reference-app/main.ts', import.meta.url), 'utf8')).toContain(shown);
});

test("Little's law: the worked example is what its functions give", async () => {
  const project = docProject(codeBlocks('docs/tuning.md').filter(({ name }) => name === 'sizing.ts'));
  try {
    const { workers, poolSize, drainSeconds } = (await import(project.path('sizing.ts'))) as {
      workers(load: object): number;
      poolSize(workers: number, instances: number, requests: number): number;
      drainSeconds(backlog: number, workers: number, load: object): number;
    };
    const load = { perSecond: 80, handlerMs: 120 };
    const lines = page('tuning.md').split('\n');
    const result = (question: string) =>
      lines
        .find((line) => line.startsWith(`| ${question}`))
        ?.split('|')[3]
        ?.trim();
    expect(result('workers at 70 % use')).toBe(String(workers(load)));
    expect(result('`poolSize` of each instance')).toBe(String(poolSize(14, 3, 10)));
    expect(result('in work at once')).toBe(String((load.perSecond * load.handlerMs) / 1_000));
    expect(result('most that 14 workers handle')).toBe(`${Math.floor(14 / 0.12)} a second`);
    expect(result('a backlog of 10,000')).toBe(`${Math.round(drainSeconds(10_000, 14, load))} s`);
    expect(drainSeconds(10_000, 9, load)).toBe(Number.POSITIVE_INFINITY);
  } finally {
    project.remove();
  }
});
