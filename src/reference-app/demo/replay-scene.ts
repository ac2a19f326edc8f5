import type { Connection } from 'mysql2/promise';
import { count } from './count.js';
import type { Instance } from './instance.js';

const patienceMs = 60_000;

export interface Replayed {
  /** Messages that were run again. */
  readonly replayed: number;
  readonly problems: readonly string[];
}

/**
 * What an operator does in the morning: the cause of the poison message is fixed, and exactly that message is run again,
 * with a record.
 */
export async function replayPoison(
  database: Connection,
  instances: () => readonly Instance[],
  token: string,
  signal: AbortSignal,
): Promise<Replayed> {
  const poison = "source = 'orders' AND dedup_key = 'evt-poison'";
  // In life a new version would be deployed that can handle it.
  await database.query(`UPDATE message_log SET body = REPLACE(body, '"crash":true', '"crash":false') WHERE ${poison}`);
  const body = JSON.stringify({
    selection: { source: 'orders', errorKind: 'crashed' },
    reason: 'the handler was fixed',
    ratePerSecond: 100,
  });
  const [instance] = instances();
  if (!instance) return { replayed: 0, problems: ['no instance is there to start the replay'] };
  const response = await fetch(new URL('/admin/replay/runs', instance.url), {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
    body,
    signal,
  });
  if (response.status !== 202) return { replayed: 0, problems: [`the replay was answered ${response.status}`] };
  const giveUpAt = performance.now() + patienceMs;
  const done = () => count(database, `SELECT COUNT(*) AS n FROM message_log WHERE ${poison} AND status = 'success'`);
  while ((await done()) === 0 && performance.now() < giveUpAt && !signal.aborted)
    await new Promise((resolve) => setTimeout(resolve, 100));
  const replayed = await count(database, 'SELECT COALESCE(SUM(requeued), 0) AS n FROM replay_run');
  const effects = await count(database, "SELECT COUNT(*) AS n FROM demo_order WHERE order_id = 'order-poison'");
  const archived = await count(database, 'SELECT COUNT(*) AS n FROM inbox_message_archive');
  const problems = [
    ...((await done()) === 1 ? [] : ['the replayed message was not handled']),
    ...(effects === 1 ? [] : ['the replayed message left no order behind']),
    ...(replayed === 1 && archived === 1 ? [] : [`${replayed} replayed and ${archived} archived, not one each`]),
  ];
  return { replayed, problems };
}
