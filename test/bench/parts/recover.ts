import { findDatabase } from '../../../scripts/servers/installed-program.mjs';
import { createTestDatabase, migrated } from '../../support/database.js';
import { createEffectTables } from '../../support/inbox-fleet.js';
import { startPrivateDatabase } from '../../support/private-database.js';
import { startPrivateRedis } from '../../support/redis.js';
import { median, milliseconds } from '../harness/figures.js';
import type { BenchContext, Part, PartReport } from '../harness/part.js';
import { databaseRestarted } from '../recover/door.js';
import { holderKilled, redisRestarted } from '../recover/holder.js';
import type { Recovery } from '../recover/recovery.js';

/** The other options keep the defaults that a test would shorten. */
const inbox = { tick: 1_000, roundInterval: 2_000, lease: { ttl: 5_000 } };

const names = {
  holder: `SIGKILL of the lane's holder, lease.ttl ${inbox.lease.ttl / 1_000}s: to the next handled message`,
  database: 'database killed: from its restart to the next 200',
  redis: "Redis killed, lease.backend 'redis': from its restart to the next handled message",
} as const;

/** How long it takes to go on after a process or a server was killed, and whether anything was lost or done twice by that. */
export const part: Part = {
  about: 'going on after a process, the database or Redis was killed',
  async run(context) {
    const rounds = context.length === 'quick' ? 1 : 3;
    const { database, log } = context;
    await createEffectTables(database);
    const recoveries: { name: string; result: Recovery }[] = [];
    const note = async (name: string, run: () => Promise<Recovery>) => {
      for (let round = 0; round < rounds; round++) {
        log(`recover: ${name}, round ${round + 1}`);
        recoveries.push({ name, result: await run() });
      }
    };
    await note(names.holder, () => holderKilled(database, inbox));
    const redis = await startPrivateRedis();
    try {
      await note(names.redis, () => redisRestarted(database, redis, inbox));
    } finally {
      await redis.remove();
    }
    await withOwnServer(context, (own, server) => note(names.database, () => databaseRestarted(own, server)));
    return report(recoveries);
  },
};

/** Nothing where a server of this kind cannot be started here, only reached. */
async function withOwnServer(
  { database: { flavour } }: BenchContext,
  work: (
    own: Awaited<ReturnType<typeof createTestDatabase>>,
    server: Awaited<ReturnType<typeof startPrivateDatabase>>,
  ) => Promise<void>,
): Promise<void> {
  if (findDatabase(flavour) === null) return;
  const server = await startPrivateDatabase(flavour);
  try {
    const own = await migrated(await createTestDatabase('bench_recover', { serverUrl: server.url }));
    try {
      await work(own, server);
    } finally {
      await own.drop();
    }
  } finally {
    await server.remove();
  }
}

function report(recoveries: readonly { readonly name: string; readonly result: Recovery }[]): PartReport {
  const total = (key: 'lost' | 'twice') => recoveries.reduce((sum, { result }) => sum + result[key], 0);
  return {
    tables: [
      {
        title: 'From the kill or the restart until it goes on, medians',
        columns: ['', 'time', 'lost', 'twice'],
        rows: Object.values(names).map((name) => {
          const of = recoveries.filter((one) => one.name === name).map(({ result }) => result);
          if (of.length === 0) return [name, 'NOT MEASURED', '', ''];
          const sum = (key: 'lost' | 'twice') => String(of.reduce((count, result) => count + result[key], 0));
          return [name, milliseconds(median(of.map(({ ms }) => ms))), sum('lost'), sum('twice')];
        }),
      },
    ],
    targets: [],
    verdicts: [
      { name: 'nothing is lost', ok: total('lost') === 0, detail: `${recoveries.length} kills: ${total('lost')}` },
      {
        name: 'nothing is applied twice',
        ok: total('twice') === 0,
        detail: `${recoveries.length} kills: ${total('twice')}`,
      },
    ],
    figures: recoveries,
  };
}
