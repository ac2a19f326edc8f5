import { pushJson } from '../../support/inbox-app.js';
import { numbers } from '../../support/plans.js';
import { batch, type Prepared } from './prepare.js';

/** Milliseconds that one of each takes, in one round of the bench. */
export interface Costs {
  /** Claim, no-op handler and outcome of a message, each message with a commit of its own. */
  readonly claim: number;
  /** Receipt of a push, one after the other. */
  readonly intake: number;
  readonly stats: number;
}

const pushes = 100;
const statsCalls = 5;

export async function measure(prepared: Prepared): Promise<Costs> {
  return { claim: await claim(prepared), intake: await intake(prepared), stats: await stats(prepared) };
}

async function claim({ variant, app, database }: Prepared): Promise<number> {
  if (variant.hot === 0) {
    await database.query(
      `INSERT INTO inbox_message (source, type, body, status, next_attempt_at, received_at)
       SELECT 'test', 'work', '{"type":"work"}', 'pending', UTC_TIMESTAMP(3) - INTERVAL 1 HOUR, UTC_TIMESTAMP(3) FROM ${numbers(0, batch)}`,
    );
  }
  const before = app.events('succeeded').length;
  const startedAt = performance.now();
  await app.inbox.runOnce();
  const tookMs = performance.now() - startedAt;
  const handled = app.events('succeeded').length - before;
  if (handled !== batch) throw new Error(`${variant.name}: a round handled ${handled} messages, not ${batch}`);
  return tookMs / handled;
}

/** Each push has a key of its own, which the table is asked for. They wait behind what is measured. */
async function intake({ app }: Prepared): Promise<number> {
  const startedAt = performance.now();
  for (let n = 0; n < pushes; n++) await pushJson(app.inbox, { type: 'work', id: `${startedAt}:${n}` });
  return (performance.now() - startedAt) / pushes;
}

async function stats({ app }: Prepared): Promise<number> {
  const startedAt = performance.now();
  for (let n = 0; n < statsCalls; n++) await app.inbox.stats();
  return (performance.now() - startedAt) / statsCalls;
}
