import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mysql2/promise';
import { count, unfinished } from './count.js';
import type { Instance } from './instance.js';
import { Progress } from './progress.js';
import type { Supervisor } from './supervisor.js';

/** Everything is handled long before; a demo that takes longer has found a fault. */
const settleTimeoutMs = 90_000;
/** By then the lane works, and enough is left to be interrupted. */
const killAtShare = 0.3;

export interface Settling {
  readonly database: Connection;
  readonly supervisor: Supervisor;
  readonly signal: AbortSignal;
  readonly say: (line: string) => void;
}

/**
 * Waits until no message is unfinished, with a bar, and on the way kills the instance that consumes. Resolves with the
 * number of instances that it killed, when the killed one has been replaced.
 */
export async function settle({ database, supervisor, signal, say }: Settling): Promise<number> {
  const giveUpAt = performance.now() + settleTimeoutMs;
  const total = await count(database, "SELECT COUNT(*) AS n FROM message_log WHERE source <> ''");
  const progress = new Progress('handled'.padEnd(16), total);
  let killed = 0;
  for (;;) {
    const open = await count(database, unfinished);
    progress.to(total - open);
    const over = open === 0 && (supervisor.isComplete || supervisor.problems.length > 0);
    if (over || performance.now() > giveUpAt || signal.aborted) return killed;
    if (killed === 0 && open > 0 && total - open >= total * killAtShare) {
      const holder = await holderOf(database, supervisor.alive);
      if (holder) {
        killed++;
        say(`instance ${holder.name}, which is consuming, gets SIGKILL`);
        await holder.kill();
      }
    }
    await sleep(50);
  }
}

/** The instance that holds a lane; an owner is `host:pid:random`. */
async function holderOf(database: Connection, instances: readonly Instance[]): Promise<Instance | undefined> {
  const [rows] = await database.query(
    "SELECT owner FROM mailroom_lease WHERE name LIKE 'inbox:lane:%' AND held_until > UTC_TIMESTAMP(3)",
  );
  const pids = (rows as { owner: string }[]).map(({ owner }) => owner.split(':').at(-2));
  return instances.find(({ pid }) => pids.includes(String(pid)));
}
