import type { InboxOptions } from '../../../src/index.js';
import type { TestDatabase } from '../../support/database.js';
import { allTerminal, startInstance, statusCounts, storeMessages, wrongEffects } from '../../support/inbox-fleet.js';
import { waitUntil } from '../../support/wait-until.js';
import type { Recovery } from './recovery.js';

const messages = 300;

/** From SIGKILL of the process that holds the only lane to the next message that another process has handled. */
export async function holderKilled(database: TestDatabase, inbox: Partial<InboxOptions>): Promise<Recovery> {
  await empty(database);
  const bodies = Array.from({ length: messages }, (_, n) => ({ type: 'work', entity: `e${n % 20}`, sleepMs: 10 }));
  await storeMessages(database, bodies);
  const holder = await startInstance(database, 'a', inbox);
  try {
    for (let n = 0; n < 20; n++) await holder.line('handled', 30_000);
    const heir = await startInstance(database, 'b', inbox);
    try {
      await holder.line('handling', 30_000);
      const killedAt = performance.now();
      holder.signal('SIGKILL');
      await heir.line('handled', 60_000);
      const ms = performance.now() - killedAt;
      await allTerminal(database);
      return { ms, ...(await whatCame(database, messages)) };
    } finally {
      await heir.kill();
    }
  } finally {
    await holder.kill();
  }
}

/** From the start of a Redis that had gone away to the next message that is handled. */
export async function redisRestarted(
  database: TestDatabase,
  redis: { readonly url: string; kill(): Promise<void>; start(): Promise<void> },
  inbox: Partial<InboxOptions>,
): Promise<Recovery> {
  await empty(database);
  const instance = await startInstance(database, 'a', {
    ...inbox,
    lease: { ...inbox.lease, backend: 'redis', redis: redis.url },
  });
  try {
    await storeMessages(database, [{ type: 'work' }]);
    await instance.line('handled', 30_000);
    await redis.kill();
    await storeMessages(database, [{ type: 'work' }, { type: 'work' }, { type: 'work' }]);
    await redis.start();
    const startedAt = performance.now();
    await instance.line('handled', 60_000);
    const ms = performance.now() - startedAt;
    await allTerminal(database);
    return { ms, ...(await whatCame(database, 4)) };
  } finally {
    await instance.kill();
  }
}

async function empty(database: TestDatabase): Promise<void> {
  for (const table of ['inbox_message', 'effect', 'mailroom_lease', 'mailroom_instance'])
    await database.query(`DELETE FROM ${table}`);
}

async function whatCame(database: TestDatabase, stored: number): Promise<Pick<Recovery, 'lost' | 'twice'>> {
  await waitUntil(async () => (await statusCounts(database)).success === stored, {
    what: 'all are successes',
    timeoutMs: 10_000,
  }).catch(() => undefined);
  const { success = 0 } = await statusCounts(database);
  const wrong = (await wrongEffects(database)) as { effects: number | string }[];
  return { lost: stored - success, twice: wrong.filter(({ effects }) => Number(effects) > 1).length };
}
