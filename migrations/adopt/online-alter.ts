import { setTimeout as sleep } from 'node:timers/promises';
import type { QueryRunner } from 'typeorm';

/** Where progress goes, a line at a time. */
export type Log = (line: string) => void;

export interface OnlineOptions {
  readonly log: Log;
  /** The server may copy the table with its writers locked out, where it cannot do a change beside them. */
  readonly allowCopy: boolean;
  /** How long a change is tried while long transactions keep the table. */
  readonly lockPatienceMs: number;
}

/**
 * Seconds that a change waits for the table. Whoever comes after it waits behind it for as long, so it is the smallest that
 * both servers take.
 */
const LOCK_WAIT_SECONDS = 1;
/** So long the traffic that queued behind an attempt has the table for itself. */
const PAUSE_MS = 2_000;
const STILL_RUNNING_MS = 10_000;

const lockWaitTimeout = 1205;
// The last one: MySQL has changed the definition in an instant as often as it can remember, and rebuilds the table once.
const notSupported = [1845, 1846, 4092];

interface Way {
  readonly clause: string;
  /** What it means for those who use the table meanwhile. */
  readonly cost: string;
}

const INSTANT: Way = { clause: 'ALGORITHM=INSTANT', cost: 'changes the definition only' };
const BESIDE: Way = {
  clause: 'ALGORITHM=INPLACE, LOCK=NONE',
  cost: 'reads or rebuilds the table beside its readers and writers',
};
const COPY: Way = { clause: 'ALGORITHM=COPY, LOCK=SHARED', cost: 'copies the table; writers wait until it is done' };

/**
 * Changes a table beside its traffic: the cheapest way that the server offers, each named, none chosen by the server in
 * silence. Waits one second at most for the table, lets others pass and tries again.
 *
 * @param change what follows ALTER TABLE
 * @throws Error when only a copy is possible and not allowed, or transactions keep the table for too long
 */
export async function alterOnline(
  queryRunner: QueryRunner,
  table: string,
  change: string,
  kind: 'definition' | 'index',
  options: OnlineOptions,
): Promise<void> {
  const ways = [...(kind === 'definition' ? [INSTANT] : []), BESIDE, ...(options.allowCopy ? [COPY] : [])];
  const reasons: string[] = [];
  for (const way of ways) {
    try {
      await patiently(queryRunner, table, `${change}, ${way.clause}`, way, options);
      return;
    } catch (error) {
      if (!notSupported.includes(errnoOf(error))) throw error;
      reasons.push(messageOf(error));
      options.log(`${table}: not with ${way.clause}: ${messageOf(error)}`);
    }
  }
  throw new Error(
    `mailroom migrations: the server cannot change ${table} beside its writers (${reasons.at(-1)}). It would copy the table ` +
      'while writers wait, for about as long as a dump and reload. Do it with your tool for online changes, with the statements ' +
      'of `npx mailroom migrate sql`, or allow it in a quiet hour with allowCopy: true.',
  );
}

async function patiently(
  queryRunner: QueryRunner,
  table: string,
  change: string,
  way: Way,
  { log, lockPatienceMs }: OnlineOptions,
): Promise<void> {
  const giveUpAt = Date.now() + lockPatienceMs;
  for (let attempt = 1; ; attempt++) {
    const startedAt = Date.now();
    const since = () => `${((Date.now() - startedAt) / 1_000).toFixed(1)} s`;
    const timer = setInterval(() => log(`${table}: still at it after ${since()}`), STILL_RUNNING_MS);
    try {
      log(`${table}: ALTER TABLE ... ${change} (${way.cost})`);
      await withLockWait(queryRunner, () => queryRunner.query(`ALTER TABLE \`${table}\` ${change}`));
      log(`${table}: done in ${since()}`);
      return;
    } catch (error) {
      if (errnoOf(error) !== lockWaitTimeout) throw error;
      if (Date.now() > giveUpAt)
        throw new Error(
          `mailroom migrations: transactions have kept ${table} for ${Math.round(lockPatienceMs / 1_000)} s. End the longest of ` +
            'them (SHOW FULL PROCESSLIST), then run the migration again: it goes on where it stopped.',
          { cause: error },
        );
      log(`${table}: somebody has the table; attempt ${attempt + 1} in ${PAUSE_MS / 1_000} s`);
    } finally {
      clearInterval(timer);
    }
    await sleep(PAUSE_MS);
  }
}

async function withLockWait(queryRunner: QueryRunner, work: () => Promise<unknown>): Promise<void> {
  const [row] = (await queryRunner.query('SELECT @@SESSION.lock_wait_timeout AS seconds')) as { seconds: number }[];
  await queryRunner.query(`SET SESSION lock_wait_timeout = ${LOCK_WAIT_SECONDS}`);
  try {
    await work();
  } finally {
    await queryRunner.query(`SET SESSION lock_wait_timeout = ${Number(row?.seconds ?? 86_400)}`).catch(() => undefined);
  }
}

function errnoOf(error: unknown): number {
  return Number((error as { errno?: unknown }).errno ?? 0);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
