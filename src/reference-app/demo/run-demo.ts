import { randomBytes } from 'node:crypto';
import type { Connection } from 'mysql2/promise';
import { createDemoDatabase } from './demo-database.js';
import type { DemoPart, Sent, Verdict } from './demo-part.js';
import { GithubPart } from './github-part.js';
import { Instance } from './instance.js';
import { OrdersPart } from './orders-part.js';
import { Progress } from './progress.js';
import type { Report } from './report.js';
import { send } from './sender.js';

/** Everything is handled long before; a demo that takes longer has found a fault. */
const settleTimeoutMs = 60_000;

export interface DemoOptions {
  readonly databaseUrl: string;
  readonly redisUrl: string | undefined;
  readonly say: (line: string) => void;
  /** Aborted by Ctrl-C: what was started is stopped and taken away. */
  readonly signal: AbortSignal;
}

/** Runs the whole demo on a database of its own, with two instances, and takes everything away afterwards. */
export async function runDemo({ databaseUrl, redisUrl, say, signal }: DemoOptions): Promise<Report> {
  const startedAt = performance.now();
  const secrets = { orders: `whsec_${randomBytes(24).toString('base64')}`, github: randomBytes(24).toString('hex') };
  const database = await createDemoDatabase(databaseUrl);
  const instances: Instance[] = [];
  let starting: Promise<unknown>[] = [];
  try {
    const environment = {
      DATABASE_URL: database.url,
      ...(redisUrl ? { REDIS_URL: redisUrl } : {}),
      PORT: '0',
      MIGRATE: 'true',
      SIMULATE: 'true',
      ORDERS_SECRET: secrets.orders,
      GITHUB_SECRET: secrets.github,
      INBOX_BACKOFF_SECONDS: '0.2,0.5,1',
      INBOX_ROUND_INTERVAL_MS: '500',
      SHUTDOWN_READINESS_DELAY_MS: '0',
    };
    say('two instances start, on one database');
    starting = ['a', 'b'].map((name) =>
      Instance.start(name, environment).then((instance) => void instances.push(instance)),
    );
    await Promise.all(starting.map((start) => interruptible(start, signal)));
    const parts: readonly DemoPart[] = [new GithubPart(secrets.github), new OrdersPart(secrets.orders)];
    const sent = new Map<DemoPart, Sent>();
    for (const part of parts) {
      const deliveries = part.deliveries();
      const progress = new Progress(part.name.padEnd(16), deliveries.length);
      sent.set(
        part,
        await interruptible(
          send(deliveries, () => instances, progress.step),
          signal,
        ),
      );
    }
    await interruptible(settle(database.connection, signal), signal);
    return await reportOf(parts, sent, database.connection, (performance.now() - startedAt) / 1000);
  } finally {
    // One that is still starting must be stopped too.
    await Promise.allSettled(starting);
    await Promise.all(instances.map((instance) => instance.stop()));
    await database.drop();
  }
}

/** Waits until no message is unfinished, with a bar. */
async function settle(database: Connection, signal: AbortSignal): Promise<void> {
  const giveUpAt = performance.now() + settleTimeoutMs;
  const total = await count(database, 'SELECT COUNT(*) AS n FROM inbox_message');
  const progress = new Progress('handled'.padEnd(16), total);
  for (;;) {
    const open = await count(database, unfinished);
    progress.to(total - open);
    if (open === 0 || performance.now() > giveUpAt || signal.aborted) return;
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}

const unfinished = "SELECT COUNT(*) AS n FROM inbox_message WHERE status NOT IN ('success', 'failed')";

async function reportOf(
  parts: readonly DemoPart[],
  sent: ReadonlyMap<DemoPart, Sent>,
  database: Connection,
  seconds: number,
): Promise<Report> {
  const verdicts: Verdict[] = [];
  const problems: string[] = [];
  let missing = 0;
  for (const part of parts) {
    const answers = sent.get(part);
    if (!answers) continue;
    const verdict = await part.verify(database, answers);
    verdicts.push(verdict);
    problems.push(...verdict.problems);
    missing += await missingOf(database, answers.storedIds);
  }
  const sum = (pick: (verdict: Verdict) => number) => verdicts.reduce((total, verdict) => total + pick(verdict), 0);
  const total = (pick: (answers: Sent) => number) =>
    [...sent.values()].reduce((all, answers) => all + pick(answers), 0);
  const [groups] = await database.query('SELECT status, COUNT(*) AS n FROM inbox_message GROUP BY status');
  const statuses = Object.fromEntries(
    (groups as { status: string; n: number }[]).map(({ status, n }) => [status, Number(n)]),
  );
  return {
    received: total((answers) => answers.pushes),
    duplicates: total((answers) => answers.duplicates),
    success: statuses.success ?? 0,
    failed: statuses.failed ?? 0,
    plannedFailures: sum((verdict) => verdict.plannedFailures),
    retried: await count(database, 'SELECT COUNT(*) AS n FROM inbox_message WHERE attempts > 1'),
    unacknowledged: total((answers) => answers.unacknowledged),
    unfinished: await count(database, unfinished),
    statuses,
    lost: missing + sum((verdict) => verdict.lost),
    appliedTwice: sum((verdict) => verdict.appliedTwice),
    seconds,
    problems,
  };
}

/** Messages that were acknowledged but did not come to an end. */
async function missingOf(database: Connection, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  const found = await count(
    database,
    "SELECT COUNT(*) AS n FROM inbox_message WHERE id IN (?) AND status IN ('success', 'failed')",
    [ids],
  );
  return new Set(ids).size - found;
}

async function count(database: Connection, sql: string, values: unknown[] = []): Promise<number> {
  const [rows] = await database.query(sql, values);
  return Number((rows as { n: number }[])[0]?.n ?? 0);
}

async function interruptible<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => undefined);
  let stop: (() => void) | undefined;
  const interrupted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(new InterruptedError());
    if (signal.aborted) stop();
    signal.addEventListener('abort', stop, { once: true });
  });
  try {
    return await Promise.race([work, interrupted]);
  } finally {
    if (stop) signal.removeEventListener('abort', stop);
  }
}

/** Ctrl-C. */
export class InterruptedError extends Error {}
