import type { Command } from 'commander';
import type { Row } from '../../database/index.js';
import { outboxRunBox } from '../../delivery/runs/index.js';
import { NotThereError } from './exit-codes.js';
import { fields, say, table } from './print.js';
import { addSelectionFlags, type SelectionFlags, selectionOf, wholeNumber } from './selection-flags.js';
import { type Session, withSession } from './session.js';

interface LookFlags extends SelectionFlags {
  readonly url?: string;
  readonly json?: boolean;
  readonly after?: string;
  readonly limit: number;
}

/** Counts beyond this say "more than": a table may be large. */
const countTo = 100_000;
const statuses = {
  inbox: ['pending', 'processing', 'held', 'failed', 'success'],
  outbox: ['pending', 'sending', 'held', 'parked', 'dead', 'sent'],
} as const;

/** `failed`, `show` and `stats`: they change nothing. */
export function addLookCommands(program: Command): void {
  addSelectionFlags(program.command('failed').description('messages that failed; without a filter all of them'))
    .option('--after <id>', 'messages after this id')
    .option('--limit <count>', 'at most 200', wholeNumber, 50)
    .action((_flags: unknown, command: Command) => {
      const flags = command.optsWithGlobals<LookFlags>();
      return withSession(flags, (session) => failed(session, flags));
    });
  program
    .command('show')
    .description('one message: its body with long numbers masked, its headers and its earlier lives')
    .argument('<id>')
    .option('--box <box>', 'which box', 'inbox')
    .action((id: string, _flags: unknown, command: Command) => {
      const flags = command.optsWithGlobals<LookFlags>();
      return withSession(flags, async ({ replay }) => {
        const message = await replay.message(id, flags.box);
        if (!message) throw new NotThereError(`there is no message ${id}`);
        say(flags.json, message, fields(message));
      });
    });
  program
    .command('stats')
    .description(`messages by status, counted up to ${countTo}`)
    .action((_flags: unknown, command: Command) => {
      const flags = command.optsWithGlobals<LookFlags>();
      return withSession(flags, (session) => stats(session, flags.json));
    });
}

async function failed({ replay }: Session, flags: LookFlags): Promise<void> {
  const { box, status, ...filters } = selectionOf(flags);
  const rest = Object.keys(filters).length > 0 ? filters : { all: true };
  const page = { limit: flags.limit, ...(flags.after === undefined ? {} : { after: flags.after }) };
  const messages = await replay.messages({ ...rest, ...(box ? { box } : {}), ...(status ? { status } : {}) }, page);
  const columns = ['id', 'source', 'type', 'status', 'attempts', 'replays', 'errorKind', 'finishedAt', 'errorMessage'];
  say(
    flags.json,
    messages,
    table(
      messages.map((message) => ({ ...message })),
      columns,
    ),
  );
}

async function stats({ pool, inbox }: Session, json: boolean | undefined): Promise<void> {
  const counts: { box: string; status: string; count: number; more: boolean }[] = [];
  for (const { name, table: messages, claimIndex, mapped } of [inbox, outboxRunBox]) {
    for (const status of statuses[name]) {
      const [row] = await pool.rows<Row & { n: string }>(
        mapped`SELECT CAST(COUNT(*) AS CHAR) AS n FROM (SELECT 1 AS one FROM ${messages} m FORCE INDEX (${claimIndex})
          WHERE m.status = ? LIMIT ${countTo + 1}) AS some`,
        [status],
      );
      const count = Number(row?.n ?? 0);
      counts.push({ box: name, status, count: Math.min(count, countTo), more: count > countTo });
    }
  }
  const shown = counts.map(({ more, count, ...row }) => ({ ...row, count: more ? `more than ${count}` : count }));
  say(json, counts, table(shown, ['box', 'status', 'count']));
}
