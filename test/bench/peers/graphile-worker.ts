import { EventEmitter } from 'node:events';
import { Logger, run, runMigrations, type WorkerEvents } from 'graphile-worker';
import pg from 'pg';
import { waitUntil } from '../../support/wait-until.js';
import { Steady } from '../harness/steady.js';
import { Calls, type Peer } from './peer.js';
import { withPostgres } from './postgres.js';

const concurrentJobs = 24;
const localQueue = { size: 500 };
const poolSize = 10;

/** graphile-worker with batching on a PostgreSQL; null when there is none. */
export async function graphileWorker(): Promise<Peer | null> {
  const version = await withPostgres(async (url) => {
    const client = new pg.Client(url);
    await client.connect();
    const { rows } = await client.query('SHOW server_version');
    await client.end();
    return String(rows[0]?.server_version).split(' ')[0];
  });
  if (version === null) return null;
  return {
    name: 'graphile-worker',
    setUp: `batching: local queue ${localQueue.size}, completions together; ${concurrentJobs} jobs at a time, PostgreSQL ${version}, durable commits`,
    drain: async (messages, payload) => {
      const run = await withPostgres((url) => drain(url, messages, payload));
      if (run === null) throw new Error('PostgreSQL went away');
      return run;
    },
  };
}

async function drain(connectionString: string, messages: number, payload: unknown) {
  const steady = new Steady(messages);
  const calls = new Calls();
  const events: WorkerEvents = new EventEmitter();
  events.on('job:complete', () => steady.done());
  const logger = new Logger(() => () => undefined);
  const taskList = { 'order.paid': async (data: unknown) => calls.note((data as { n: number }).n) };
  await fill(connectionString, messages, payload);
  const pgPool = new pg.Pool({ connectionString, max: poolSize });
  pgPool.on('error', () => undefined);
  pgPool.on('connect', (client) => client.on('error', () => undefined));
  const runner = await run({
    pgPool,
    logger,
    noHandleSignals: true,
    taskList,
    events,
    preset: {
      worker: { concurrentJobs, localQueue, completeJobBatchDelay: 0, failJobBatchDelay: 0 },
    },
  });
  try {
    await waitUntil(() => steady.count >= messages, {
      what: 'graphile-worker is done',
      timeoutMs: 300_000,
      intervalMs: 20,
    });
  } finally {
    await runner.stop();
    await runner.promise;
    await pgPool.end();
  }
  return { ...steady.pace(), ...calls.wrong(messages) };
}

async function fill(connectionString: string, messages: number, payload: unknown): Promise<void> {
  await runMigrations({ connectionString, logger: new Logger(() => () => undefined) });
  const client = new pg.Client(connectionString);
  await client.connect();
  try {
    await client.query(
      `SELECT count(*) FROM generate_series(0, $1::int - 1) AS n,
         LATERAL graphile_worker.add_job('order.paid', json_build_object('n', n, 'payload', $2::json)) AS job`,
      [messages, JSON.stringify(payload)],
    );
    await client.query('VACUUM ANALYZE graphile_worker._private_jobs');
  } finally {
    await client.end();
  }
}
