import type { Command } from 'commander';
import { parseDuration } from '../../config/index.js';
import { pause } from '../../delivery/pause.js';
import { outboxRunBox } from '../../delivery/runs/index.js';
import { MessagePurge } from '../../retention/message-purge.store.js';
import { BatchPace } from '../../schedule/batch-pace.js';
import { UsageError } from './exit-codes.js';
import { say, table } from './print.js';
import { type Session, withSession } from './session.js';

interface PurgeFlags {
  readonly url?: string;
  readonly json?: boolean;
  readonly success?: string;
  readonly sent?: string;
  readonly failed?: string;
  readonly dead?: string;
  readonly archive?: boolean;
  readonly yes?: boolean;
}

const kinds = [
  { of: 'inbox', status: 'success' },
  { of: 'outbox', status: 'sent' },
  { of: 'inbox', status: 'failed' },
  { of: 'outbox', status: 'dead' },
] as const;
const countTo = 100_000;

/** `purge`: old messages of the statuses that are named, in the batches of retention. */
export function addPurgeCommand(program: Command, signal: AbortSignal): void {
  program
    .command('purge')
    .description('takes out old messages, in small batches beside what runs')
    .option('--success <age>', 'inbox: succeeded before, such as 7d')
    .option('--sent <age>', 'outbox: sent before')
    .option('--failed <age>', 'inbox: failed before')
    .option('--dead <age>', 'outbox: dead since before')
    .option('--archive', 'into the archive table')
    .option('--yes', 'do it; without it nothing is changed')
    .action((_flags: unknown, command: Command) => {
      const flags = command.optsWithGlobals<PurgeFlags>();
      return withSession(flags, (session) => purge(session, flags, signal));
    });
}

async function purge({ pool, inbox }: Session, flags: PurgeFlags, signal: AbortSignal): Promise<void> {
  const purges = kinds.flatMap(({ of, status }) => {
    const age = flags[status];
    if (age === undefined) return [];
    const rule = { status, olderThanMs: parseDuration(age, `--${status}`), archive: flags.archive === true };
    return [new MessagePurge(pool, of === 'inbox' ? inbox : outboxRunBox, rule)];
  });
  if (purges.length === 0) throw new UsageError('name a status and an age, such as --success 7d');
  const rows: { table: string; rows: number; more: boolean }[] = [];
  for (const one of purges) {
    const count = flags.yes ? await work(one, signal) : await one.count(countTo + 1);
    rows.push({
      table: one.name,
      rows: flags.yes ? count : Math.min(count, countTo),
      more: !flags.yes && count > countTo,
    });
  }
  const text = table(
    rows.map((row) => ({ ...row, rows: row.more ? `more than ${row.rows}` : row.rows })),
    ['table', 'rows'],
  );
  say(
    flags.json,
    flags.yes ? { purged: rows } : { dryRun: true, wouldPurge: rows },
    flags.yes ? text : `${text}\n\nNothing was changed. Add --yes to do it.`,
  );
}

async function work(one: MessagePurge, signal: AbortSignal): Promise<number> {
  const pace = new BatchPace(500);
  let rows = 0;
  while (!signal.aborted) {
    const startedAt = performance.now();
    const { purged, more } = await one.step(pace.limit);
    rows += purged;
    if (!more) break;
    await pause(pace.took(performance.now() - startedAt), signal);
  }
  return rows;
}
