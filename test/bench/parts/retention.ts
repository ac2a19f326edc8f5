import { RetentionModule, RetentionService } from '../../../src/index.js';
import type { TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { numbers } from '../../support/plans.js';
import { waitUntil } from '../../support/wait-until.js';
import { median, milliseconds, rate } from '../harness/figures.js';
import { atLeast, type Part } from '../harness/part.js';

const asked = 500;
/** Pushes go in groups of this many milliseconds. */
const tickMs = 20;

interface Phase {
  readonly name: 'without' | 'with';
  readonly seconds: number;
  readonly handled: number;
  readonly perSecond: number;
  readonly lags: readonly number[];
}

/** Whether taking out a million old messages slows those down that come in. */
export const part: Part = {
  about: `purging old messages while ${asked} messages a second come in and are handled, one lane, a row written for each`,
  async run({ database, length, log }) {
    const old = length === 'quick' ? 20_000 : 1_000_000;
    const seconds = length === 'quick' ? 2 : 20;
    log(`retention: ${old.toLocaleString('en-US')} old messages are prepared`);
    await fill(database, old);
    await database.query('CREATE TABLE effect (n BIGINT PRIMARY KEY)');
    const flow = new Flow();
    const app = await startInboxApp(database, {
      handlers: {
        work: async ({ json }, { manager }) => {
          await manager.query('INSERT INTO effect (n) VALUES (?)', [json.n]);
          flow.handled(Number(json.at));
        },
      },
      inbox: { enabled: true, batchSize: 500, roundInterval: 50 },
      imports: [RetentionModule.forRoot({ enabled: false })],
    });
    const before = await deadlocks(database);
    try {
      await flow.during(app, 'warming up', until(2));
      const retention = app.app.get(RetentionService);
      const without = async () => {
        log(`retention: ${seconds} s without a purge`);
        return flow.during(app, 'without', until(seconds));
      };
      const phases = [await without()];
      log('retention: with a purge');
      const startedAt = performance.now();
      phases.push(await flow.during(app, 'with', purge(retention)));
      const purgeMs = performance.now() - startedAt;
      phases.push(await without());
      await waitUntil(async () => (await open(database)) === 0, { what: 'all are handled', timeoutMs: 600_000 });
      return await report({
        phases,
        flow,
        app,
        retention,
        database,
        old,
        purgeMs,
        deadlocks: (await deadlocks(database)) - before,
      });
    } finally {
      await app.close();
    }
  },
};

const until = (seconds: number) => new Promise<void>((resolve) => setTimeout(resolve, seconds * 1000));

async function fill(database: TestDatabase, count: number): Promise<void> {
  for (let done = 0; done < count; done += 10_000)
    await database.query(
      `INSERT INTO inbox_message (source, type, dedup_key, body, status, attempts, next_attempt_at, received_at, updated_at, finished_at)
       SELECT 'test', 'work', CONCAT('old-', n), REPEAT('x', 280), 'success', 1, UTC_TIMESTAMP(3) - INTERVAL 30 DAY,
              UTC_TIMESTAMP(3) - INTERVAL 30 DAY, UTC_TIMESTAMP(3) - INTERVAL 30 DAY, UTC_TIMESTAMP(3) - INTERVAL 30 DAY
         FROM ${numbers(done, Math.min(10_000, count - done))}`,
    );
  await database.query('ANALYZE TABLE inbox_message');
}

/** Passes until nothing is old any more. */
async function purge(retention: RetentionService): Promise<void> {
  while ((await retention.runOnce())?.length !== 0);
}

async function open(database: TestDatabase): Promise<number> {
  const [row] = await database.query<{ n: number }>(
    "SELECT COUNT(*) AS n FROM inbox_message WHERE status <> 'success'",
  );
  return Number(row?.n);
}

/** As the server counts them, those that were tried again included. */
async function deadlocks(database: TestDatabase): Promise<number> {
  const [row] = await database.query<Record<string, string | number>>(
    database.flavour === 'mariadb'
      ? "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"
      : "SELECT COUNT AS Value FROM information_schema.innodb_metrics WHERE NAME = 'lock_deadlocks'",
  );
  return Number(row?.Value ?? Number.NaN);
}

/** Pushes at a fixed rate, and what becomes of them. */
class Flow {
  pushed = 0;
  readonly refused: string[] = [];
  private lags: number[] = [];

  handled(at: number): void {
    this.lags.push(performance.now() - at);
  }

  async during(app: InboxApp, name: string, end: Promise<void>): Promise<Phase> {
    let over = false;
    void end.finally(() => {
      over = true;
    });
    this.lags = [];
    const startedAt = performance.now();
    const pushes: Promise<void>[] = [];
    for (let sent = 0; !over; ) {
      const due = Math.floor(((performance.now() - startedAt) / 1000) * asked);
      for (; sent < due; sent++) pushes.push(this.push(app));
      await new Promise((resolve) => setTimeout(resolve, tickMs));
    }
    const ms = performance.now() - startedAt;
    const { lags } = this;
    await end;
    await Promise.all(pushes);
    return {
      name: name as Phase['name'],
      seconds: ms / 1000,
      handled: lags.length,
      perSecond: (lags.length / ms) * 1000,
      lags,
    };
  }

  private async push({ inbox }: InboxApp): Promise<void> {
    const n = this.pushed++;
    const body = { type: 'work', id: `new-${n}`, n, at: performance.now() };
    await inbox
      .receive('test', { rawBody: JSON.stringify(body) })
      .catch((error: Error) => this.refused.push(error.message));
  }
}

interface Found {
  readonly phases: readonly Phase[];
  readonly flow: Flow;
  readonly app: InboxApp;
  readonly retention: RetentionService;
  readonly database: TestDatabase;
  readonly old: number;
  readonly purgeMs: number;
  readonly deadlocks: number;
}

async function report({ phases, flow, app, retention, database, old, purgeMs, deadlocks: counted }: Found) {
  const of = (name: Phase['name']) => phases.filter((phase) => phase.name === name);
  const perSecondOf = (name: Phase['name']) => median(of(name).map(({ perSecond }) => perSecond));
  const at = (name: Phase['name'], share: number) => {
    const sorted = of(name)
      .flatMap(({ lags }) => lags)
      .sort((a, b) => a - b);
    return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
  };
  const failures = app.events('retrying', 'failed', 'round-failed', 'claim-lost').length;
  const { failedBatches, rows } = retention.totals();
  const [effects] = await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM effect');
  const purged = rows['inbox_message.success'] ?? 0;
  return {
    tables: [
      {
        title: `${asked} messages a second, ${old.toLocaleString('en-US')} old ones taken out in ${(purgeMs / 1000).toFixed(0)} s (${rate(old / (purgeMs / 1000))} a second)`,
        columns: ['', 'handled a second', 'push to handler, p50', 'p99'],
        rows: (['without', 'with'] as const).map((name) => [
          `${name} a purge`,
          rate(perSecondOf(name)),
          milliseconds(at(name, 0.5)),
          milliseconds(at(name, 0.99)),
        ]),
      },
    ],
    targets: [atLeast('handled a second, with a purge / without', 0.8, perSecondOf('with') / perSecondOf('without'))],
    verdicts: [
      {
        name: 'no error surfaces, of a deadlock or otherwise',
        ok: failures + failedBatches + flow.refused.length === 0,
        detail: `${failures} in the inbox, ${failedBatches} batches, ${flow.refused.length} pushes; the server counted ${counted} deadlocks`,
      },
      {
        name: 'every push is handled once, every old message is gone',
        ok: Number(effects?.n) === flow.pushed && purged === old,
        detail: `${flow.pushed} pushed, ${effects?.n} handled; ${purged} of ${old} purged`,
      },
    ],
    figures: phases.map(({ lags, ...phase }) => ({ ...phase, lags: lags.length })),
  };
}
