import { userInfo } from 'node:os';
import type { Command } from 'commander';
import type { Preview, Run } from '../../delivery/runs/index.js';
import { exitCodes, NotThereError, UsageError } from './exit-codes.js';
import { followRun } from './follow-run.js';
import { fields, say, table } from './print.js';
import { addSelectionFlags, positiveNumber, type SelectionFlags, selectionOf, wholeNumber } from './selection-flags.js';
import { type Session, withSession } from './session.js';

interface Common {
  readonly url?: string;
  readonly json?: boolean;
}

interface StartFlags extends Common, SelectionFlags {
  readonly reason?: string;
  readonly actor: string;
  readonly rate: number;
  readonly keepOrder?: boolean;
  readonly detach?: boolean;
  readonly yes?: boolean;
}

const unchanged = 'Nothing was changed. Add --yes to do it.';

/** `replay` and `discard`: without `--yes` what they would take, with it a recorded run. */
export function addStartCommand(
  program: Command,
  action: 'replay' | 'discard',
  what: string,
  signal: AbortSignal,
): void {
  addSelectionFlags(program.command(action).description(what))
    .option('--reason <text>', 'why, for the record; required with --yes')
    .option('--actor <name>', 'who, for the record', userInfo().username)
    .option('--rate <count>', 'messages per second', positiveNumber, 10)
    .option('--keep-order', 'in order of arrival')
    .option('--detach', 'leave the run to instances of the application')
    .option('--yes', 'do it; without it nothing is changed')
    .action((_flags: unknown, command: Command) => {
      const flags = command.optsWithGlobals<StartFlags>();
      return withSession(flags, (session) => start(session, action, flags, signal));
    });
}

/** `runs`, `cancel` and `resume`. */
export function addRunCommands(program: Command, signal: AbortSignal): void {
  program
    .command('runs')
    .description('what people did, the newest first; with an id one of them')
    .argument('[id]')
    .option('--box <box>', 'which box', 'inbox')
    .option('--items', 'with an id: its messages')
    .option('--after <id>', 'with --items: messages after this id')
    .option('--before <id>', 'runs before this id')
    .option('--limit <count>', 'at most 200', wholeNumber, 50)
    .action((id: string | undefined, _flags: unknown, command: Command) => {
      const flags = command.optsWithGlobals<RunsFlags>();
      return withSession(flags, (session) => (id === undefined ? list(session, flags) : one(session, id, flags)));
    });
  program
    .command('cancel')
    .description('ends a run; what it did so far stays')
    .argument('<id>')
    .option('--yes', 'do it; without it nothing is changed')
    .action((id: string, _flags: unknown, command: Command) => {
      const flags = command.optsWithGlobals<Common & { yes?: boolean }>();
      return withSession(flags, async (session) => {
        const run = await existing(session, id);
        if (!flags.yes) return say(flags.json, { dryRun: true, run }, `${fields(run)}\n\n${unchanged}`);
        const cancelled = await session.replay.cancel(id);
        say(flags.json, { cancelled }, cancelled ? `Run ${id} is cancelled.` : `Run ${id} had ended.`);
      });
    });
  program
    .command('resume')
    .description('a cancelled run goes on with what it had not done')
    .argument('<id>')
    .option('--detach', 'leave it to instances of the application')
    .option('--yes', 'do it; without it nothing is changed')
    .action((id: string, _flags: unknown, command: Command) => {
      const flags = command.optsWithGlobals<Common & { yes?: boolean; detach?: boolean }>();
      return withSession(flags, async (session) => {
        const run = await existing(session, id);
        if (!flags.yes) return say(flags.json, { dryRun: true, run }, `${fields(run)}\n\n${unchanged}`);
        if (run.state === 'done') throw new UsageError(`run ${id} is done`);
        if (run.state === 'cancelled') await session.replay.resume(id);
        await follow(session, id, flags, signal);
      });
    });
}

interface RunsFlags extends Common {
  readonly box: 'inbox' | 'outbox';
  readonly items?: boolean;
  readonly after?: string;
  readonly before?: string;
  readonly limit: number;
}

async function start(
  session: Session,
  action: 'replay' | 'discard',
  flags: StartFlags,
  signal: AbortSignal,
): Promise<void> {
  const { replay } = session;
  const selection = selectionOf(flags);
  const preview = await replay.preview(selection);
  if (!flags.yes) return say(flags.json, { dryRun: true, ...preview }, `${previewText(preview)}\n\n${unchanged}`);
  if (flags.reason === undefined) throw new UsageError('--reason: write why, for the record');
  const request = {
    actor: flags.actor,
    reason: flags.reason,
    ratePerSecond: flags.rate,
    keepOrder: flags.keepOrder === true,
  };
  const run = action === 'replay' ? await replay.start(selection, request) : await replay.discard(selection, request);
  if (!flags.json) process.stderr.write(`run ${run.id}: ${run.selected} messages\n`);
  await follow(session, run.id, flags, signal);
}

async function follow(
  session: Session,
  id: string,
  flags: Common & { detach?: boolean },
  signal: AbortSignal,
): Promise<void> {
  const run = flags.detach ? await existing(session, id) : await followRun(session, id, signal);
  if (run === null) throw new NotThereError(`there is no run ${id}`);
  if (!flags.detach && run.state !== 'done') process.exitCode = exitCodes.cancelled;
  say(flags.json, run, fields(run));
}

async function list({ replay }: Session, { box, limit, before, json }: RunsFlags): Promise<void> {
  const runs = await replay.list({ box, limit, ...(before === undefined ? {} : { before }) });
  const columns = [
    'id',
    'action',
    'state',
    'selected',
    'requeued',
    'discarded',
    'skipped',
    'refused',
    'actor',
    'createdAt',
    'reason',
  ];
  say(json, runs, table(runs as unknown as Record<string, unknown>[], columns));
}

async function one(session: Session, id: string, { items, after, limit, json }: RunsFlags): Promise<void> {
  const run = await existing(session, id);
  if (!items) return say(json, run, fields(run));
  const found = await session.replay.items(id, { limit, ...(after === undefined ? {} : { after }) });
  say(
    json,
    found,
    table(
      found.map((item) => ({ ...item })),
      ['messageId', 'outcome', 'detail', 'at'],
    ),
  );
}

async function existing({ replay }: Session, id: string): Promise<Run> {
  const run = await replay.get(id);
  if (!run) throw new NotThereError(`there is no run ${id}`);
  return run;
}

function previewText({ count, more, groups, oldest, newest }: Preview): string {
  const total = `${more ? 'more than ' : ''}${count} messages, received ${oldest ?? '-'} to ${newest ?? '-'} (UTC)`;
  if (groups.length === 0) return total;
  return `${total}\n\n${table(
    groups.map((group) => ({ ...group })),
    ['count', 'type', 'errorKind', 'example'],
  )}`;
}
