import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { numbers } from '../../support/plans.js';
import { median, milliseconds, rotated } from '../harness/figures.js';
import { atMost, type BenchContext, type Part, type Target } from '../harness/part.js';

/** Messages handled in each measurement. */
const batch = 200;

interface Variant {
  readonly name: string;
  readonly finished: number;
  /** Due messages of a type that is handled, in another lane order than those measured: they wait behind them. */
  readonly pending: number;
  /** What stands at the head of the queue. */
  readonly mass: { readonly type: string; readonly count: number; readonly entity: boolean } | null;
}

interface Prepared {
  readonly variant: Variant;
  readonly app: InboxApp;
  readonly database: TestDatabase;
  /** How long it took until the mass was out of the way. */
  readonly asideMs: number;
  readonly times: number[];
  close(): Promise<void>;
}

/** Whether many finished rows, a backlog, or a mass that cannot be handled makes a message dearer. */
export const part: Part = {
  about: 'what a message costs beside many others: a no-op handler, one lane, each message with its own commit',
  async run(context) {
    const prepared: Prepared[] = [];
    try {
      for (const variant of variants(context.length)) {
        context.log(`scale: ${variant.name} is prepared`);
        prepared.push(await prepare(variant));
      }
      const rounds = context.length === 'quick' ? 2 : 7;
      for (let round = 0; round < rounds; round++) {
        context.log(`scale: round ${round + 1} of ${rounds}`);
        for (const one of rotated(prepared, round)) one.times.push(await measure(one));
      }
      return report(prepared);
    } finally {
      for (const one of prepared) await one.close();
    }
  },
};

function variants(length: BenchContext['length']): Variant[] {
  const [large, mass] =
    length === 'quick' ? [20_000, 2_000] : length === 'full' ? [10_000_000, 100_000] : [1_000_000, 100_000];
  const of = (type: string, entity = false) => ({ type, count: mass, entity });
  return [
    { name: '1,000 finished', finished: 1_000, pending: 0, mass: null },
    { name: `${large.toLocaleString('en-US')} finished`, finished: large, pending: 0, mass: null },
    { name: `${mass.toLocaleString('en-US')} waiting`, finished: 1_000, pending: mass, mass: null },
    { name: 'a mass of an unknown type', finished: 1_000, pending: 0, mass: of('nobody') },
    { name: 'a mass behind an open breaker', finished: 1_000, pending: 0, mass: of('broken') },
    { name: 'a mass of one blocked entity', finished: 1_000, pending: 0, mass: of('stuck', true) },
  ];
}

async function prepare(variant: Variant): Promise<Prepared> {
  const database = await migrated(await createTestDatabase('bench_scale'));
  const fill = async (type: string, status: string, count: number, age: string, open = 'NULL') => {
    for (let done = 0; done < count; done += 10_000) {
      await database.query(
        `INSERT INTO inbox_message (source, type, open_entity, body, status, next_attempt_at, received_at)
         SELECT 'test', '${type}', ${open}, '{"type":"${type}"}', '${status}', UTC_TIMESTAMP(3) - INTERVAL ${age}, UTC_TIMESTAMP(3)
           FROM ${numbers(done, Math.min(10_000, count - done))}`,
      );
    }
  };
  await fill('work', 'success', variant.finished, '3 HOUR');
  if (variant.mass)
    await fill(
      variant.mass.type,
      'pending',
      variant.mass.count,
      '2 HOUR',
      variant.mass.entity ? '17446744073709551615' : 'NULL',
    );
  // Younger than what is measured, which is stored with an older due time.
  await fill('work', 'pending', variant.pending, '1 SECOND');
  await database.query('ANALYZE TABLE inbox_message');
  const app = await startInboxApp(database, {
    handlers: {
      work: () => undefined,
      broken: [{ maxRetry: 100, backoff: ['1h'] }, () => Promise.reject(new Error('away'))],
      stuck: [{ maxRetry: 100, backoff: ['1h'] }, () => Promise.reject(new Error('stuck'))],
    },
    inbox: { batchSize: batch, breaker: { minimumCalls: 5, openFor: '1h', window: '1h' } },
  });
  const startedAt = performance.now();
  if (variant.mass) await standAside(app, database, variant.mass.type);
  return {
    variant,
    app,
    database,
    asideMs: performance.now() - startedAt,
    times: [],
    async close() {
      await app.close();
      await database.drop();
    },
  };
}

/** Rounds until nothing of the mass is due any more. */
async function standAside({ inbox }: InboxApp, database: TestDatabase, type: string): Promise<void> {
  for (let round = 0; round < 1_000; round++) {
    await inbox.runOnce();
    const due = await database.query(
      "SELECT id FROM inbox_message WHERE type = ? AND status = 'pending' AND next_attempt_at <= UTC_TIMESTAMP(3) LIMIT 1",
      [type],
    );
    if (due.length === 0) return;
  }
  throw new Error(`the mass of type ${type} did not get out of the way`);
}

/** Milliseconds for each of the messages that one round handles. */
async function measure({ app, database }: Prepared): Promise<number> {
  await database.query(
    `INSERT INTO inbox_message (source, type, body, status, next_attempt_at, received_at)
     SELECT 'test', 'work', '{"type":"work"}', 'pending', UTC_TIMESTAMP(3) - INTERVAL 1 HOUR, UTC_TIMESTAMP(3) FROM ${numbers(0, batch)}`,
  );
  const before = app.events('succeeded').length;
  const startedAt = performance.now();
  await app.inbox.runOnce();
  const took = performance.now() - startedAt;
  const handled = app.events('succeeded').length - before;
  if (handled !== batch) throw new Error(`a round handled ${handled} messages, not ${batch}`);
  return took / handled;
}

function report(prepared: readonly Prepared[]) {
  const [smallest] = prepared;
  const ratioTo = (one: Prepared) =>
    smallest ? median(one.times.map((time, round) => time / (smallest.times[round] ?? Number.NaN))) : Number.NaN;
  const targets: Target[] = prepared
    .slice(1)
    .map((one) => atMost(`${one.variant.name} / 1,000 finished, time for a message`, 1.3, ratioTo(one)));
  return {
    tables: [
      {
        title: `${batch} messages a round, medians of ${smallest?.times.length ?? 0} rounds in turns`,
        columns: ['', 'a message', 'beside the smallest', 'until the mass stood aside'],
        rows: prepared.map((one) => [
          one.variant.name,
          milliseconds(median(one.times)),
          ratioTo(one).toFixed(2),
          one.variant.mass ? milliseconds(one.asideMs) : '',
        ]),
      },
    ],
    targets,
    verdicts: [{ name: 'every round handled what was due', ok: true, detail: `${prepared.length} variants` }],
    figures: prepared.map(({ variant, times, asideMs }) => ({ ...variant, times, asideMs })),
  };
}
