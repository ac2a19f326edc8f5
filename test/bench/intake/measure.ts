import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { rotated } from '../harness/figures.js';
import type { BenchContext } from '../harness/part.js';
import { startWorker, type Worker } from '../harness/worker.js';
import type { Latency, LoadJob, LoadResult } from '../load/load-job.js';
import { OrderPushes } from '../load/order-push.js';
import type { Arm } from './arms.js';
import { type AnswerCheck, checkAnswers } from './check-answers.js';

export type Framework = 'express' | 'fastify';

/** One run of one arm. */
export interface Run {
  readonly framework: Framework;
  readonly connections: number;
  /** Null: as fast as it could. */
  readonly ratePerSecond: number | null;
  readonly arm: string;
  readonly round: number;
  readonly perSecond: number;
  readonly latency: Latency;
  /** Of the application's process, per answered push. */
  readonly cpuMsPerPush: number;
  /** Null for the arm that stores nothing. */
  readonly check: AnswerCheck | null;
}

/** A comparison: the arms run one after the other, `rounds` times, each round beginning with another one. */
export interface Comparison {
  readonly framework: Framework;
  readonly connections: number;
  /** The same for all arms, so that they are compared at rest; absent: as fast as each can. */
  readonly ratePerSecond?: number;
  readonly arms: readonly Arm[];
  readonly rounds: number;
  readonly warmUpMs: number;
  readonly measureMs: number;
}

interface ServerState {
  readonly origin: string;
  readonly cpuMs: number;
}

const secret = `whsec_${Buffer.alloc(32, 'bench').toString('base64')}`;
/** What the run before left to do, such as purging and the page cleaner, is not counted as the next one's. */
const settleMs = 300;

/** Runs comparisons with a server process per framework and one load process. */
export class IntakeBench {
  private readonly servers = new Map<Framework, { readonly worker: Worker; readonly origin: string }>();
  private readonly load = startWorker(new URL('../load/load.ts', import.meta.url));

  constructor(private readonly context: BenchContext) {}

  async compare(comparison: Comparison): Promise<Run[]> {
    const { framework, connections, ratePerSecond, arms, rounds, warmUpMs, measureMs } = comparison;
    const pace = ratePerSecond === undefined ? { warmUpMs, measureMs } : { warmUpMs, measureMs, ratePerSecond };
    const server = await this.server(framework);
    const runs: Run[] = [];
    for (let round = 0; round < rounds; round++) {
      for (const arm of rotated(arms, round)) {
        const job = { origin: server.origin, path: arm.path, connections, ...pace, duplicateShare: arm.duplicateShare };
        const measured = await this.run(server.worker, arm, job);
        const run = { framework, connections, ratePerSecond: ratePerSecond ?? null, arm: arm.name, round, ...measured };
        runs.push(run);
        this.context.log(
          `intake: ${framework}, ${connections} connections, round ${round + 1}: ${arm.name} ${Math.round(run.perSecond)}/s, p99 ${run.latency.p99.toFixed(1)} ms`,
        );
      }
    }
    return runs;
  }

  async close(): Promise<void> {
    await Promise.all([this.load.stop(), ...[...this.servers.values()].map(({ worker }) => worker.stop())]);
  }

  private async run(
    server: Worker,
    { table }: Arm,
    job: Omit<LoadJob, 'secret' | 'prefix'>,
  ): Promise<Pick<Run, 'perSecond' | 'latency' | 'cpuMsPerPush' | 'check'>> {
    const { database } = this.context;
    if (table !== null) await database.query(`TRUNCATE TABLE ${table}`);
    await delay(settleMs);
    const identity = { secret, prefix: `EV-${randomBytes(6).toString('hex')}` };
    const before = await server.ask<ServerState>('state');
    const { answers, ...measured } = await this.load.ask<LoadResult>({ ...job, ...identity });
    const cpuMsPerPush = ((await server.ask<ServerState>('state')).cpuMs - before.cpuMs) / answers.length;
    const pushes = new OrderPushes(identity);
    const check =
      table === null ? null : await checkAnswers(database, table, answers, (event) => pushes.eventId(event));
    return { ...measured, cpuMsPerPush, check };
  }

  private async server(framework: Framework): Promise<{ readonly worker: Worker; readonly origin: string }> {
    const running = this.servers.get(framework);
    if (running) return running;
    const { url } = this.context.database;
    const worker = startWorker(new URL('./push-server.ts', import.meta.url), {
      env: { DATABASE_URL: url, FRAMEWORK: framework, SECRET: secret },
      execArgv: (process.env.BENCH_SERVER_ARGS ?? '').split(' ').filter(Boolean),
    });
    const server = { worker, origin: (await worker.ask<ServerState>('state')).origin };
    this.servers.set(framework, server);
    return server;
  }
}

/** The peers' tables: the same columns and keys as ours, so that the server has the same to do for each row. */
export async function createPeerTables({ database }: BenchContext): Promise<void> {
  for (const table of ['saved_push', 'inserted_push']) {
    await database.query(`CREATE TABLE ${table} LIKE inbox_message`);
  }
}
