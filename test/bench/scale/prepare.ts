import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';
import { fill } from './fill.js';
import type { MassType, Variant } from './variants.js';

/** Messages handled in one round. */
export const batch = 200;

/** What happened while a mass stood aside, with the consumer running. */
export interface StandingAside {
  readonly tookMs: number;
  /** From the receipt of another message to its handler, of each that was pushed meanwhile. */
  readonly latenciesMs: readonly number[];
}

/** One variant, ready to be measured. */
export interface Prepared {
  readonly variant: Variant;
  readonly app: InboxApp;
  readonly database: TestDatabase;
  readonly aside: StandingAside | null;
  close(): Promise<void>;
}

const entity = '17446744073709551615';
/** A mass that takes longer than this will not get out of the way any more. */
const longestAsideMs = 300_000;
/** Pause between two of the messages that are pushed while a mass stands aside. */
const probeMs = 50;

export async function prepare(variant: Variant): Promise<Prepared> {
  const database = await migrated(await createTestDatabase('bench_scale'));
  const { finished, waiting, hot, mass } = variant;
  const work = { type: 'work', status: 'pending' } as const;
  await fill(database, { ...work, status: 'success', count: finished, age: '1 DAY' });
  if (hot > 0) await fill(database, { ...work, count: hot, age: '1 HOUR', entity });
  if (mass) {
    const { type, count } = mass;
    await fill(database, { type, status: 'pending', count, age: '2 HOUR', ...(type === 'stuck' ? { entity } : {}) });
  }
  // Younger than what is measured, which is stored with an older due time.
  await fill(database, { ...work, count: waiting, age: '30 MINUTE' });
  await database.query('ANALYZE TABLE inbox_message');
  const aside = mass ? await standAside(database, mass.type) : null;
  const app = await startInboxApp(database, appOptions());
  return {
    variant,
    app,
    database,
    aside,
    async close() {
      await app.close();
      await database.drop();
    },
  };
}

function appOptions(probed?: () => void): InboxAppOptions {
  const later = { maxRetry: 100, backoff: ['1h'] };
  return {
    handlers: {
      work: () => undefined,
      probe: () => probed?.(),
      broken: [later, () => Promise.reject(new Error('away'))],
      stuck: [later, () => Promise.reject(new Error('stuck'))],
    },
    inbox: { batchSize: batch, breaker: { minimumCalls: 5, openFor: '1h', window: '1h' } },
  };
}

/** Lets a consumer run until nothing of the mass is due any more, and pushes another message now and then. */
async function standAside(database: TestDatabase, type: MassType): Promise<StandingAside> {
  let handled = 0;
  const options = appOptions(() => handled++);
  const startedAt = performance.now();
  const app = await startInboxApp(database, { ...options, inbox: { ...options.inbox, enabled: true } });
  const latenciesMs: number[] = [];
  try {
    while (await anyDue(database, type)) {
      if (performance.now() - startedAt > longestAsideMs) throw new Error(`the mass of type ${type} stays in the way`);
      await pushJson(app.inbox, { type: 'probe' });
      const pushedAt = performance.now();
      const before = latenciesMs.length;
      await waitUntil(() => handled > before, {
        what: 'a message beside a mass is handled',
        timeoutMs: longestAsideMs,
        intervalMs: 1,
      });
      latenciesMs.push(performance.now() - pushedAt);
      await new Promise((resolve) => setTimeout(resolve, probeMs));
    }
    return { tookMs: performance.now() - startedAt, latenciesMs };
  } finally {
    await app.close();
  }
}

async function anyDue(database: TestDatabase, type: MassType): Promise<boolean> {
  const due = await database.query(
    `SELECT id FROM inbox_message FORCE INDEX (inbox_claim)
      WHERE status = 'pending' AND lane = 0 AND next_attempt_at <= UTC_TIMESTAMP(3) AND type = ? LIMIT 1`,
    [type],
  );
  return due.length > 0;
}
