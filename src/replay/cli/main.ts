#!/usr/bin/env node
import { Command, CommanderError } from 'commander';
import { addEditCommand } from './edit-command.js';
import { exitCodeOf, exitCodes } from './exit-codes.js';
import { addLookCommands } from './look-commands.js';
import { addMigrateCommands } from './migrate-commands.js';
import { addPurgeCommand } from './purge-command.js';
import { addRunCommands, addStartCommand } from './run-commands.js';

const stopping = new AbortController();
// The batch under way ends; a run goes on elsewhere, or when somebody follows it again.
for (const name of ['SIGINT', 'SIGTERM'] as const) process.once(name, () => stopping.abort());

const program = new Command('mailroom')
  .description('See what failed, run it again, and keep a record. Without --yes nothing is changed.')
  .option('--url <url>', 'mysql://user:password@host:3306/database; default: the variable DATABASE_URL')
  .option(
    '--inbox-table <table>',
    'an adopted table: its name, or JSON as in inbox.table; default: MAILROOM_INBOX_TABLE',
  )
  .option('--json', 'results as JSON on standard output')
  .addHelpText(
    'after',
    `
Ends with 0 done, 1 failed, 2 wrong use, 3 overlapping run, 4 no such message or run, 5 run cancelled or left, 6 tables that do not fit.`,
  )
  .exitOverride();

addLookCommands(program);
addStartCommand(program, 'replay', 'runs messages again, as a recorded run', stopping.signal);
addStartCommand(program, 'discard', 'takes messages out, into the archive, as a recorded run', stopping.signal);
addEditCommand(program);
addRunCommands(program, stopping.signal);
addPurgeCommand(program, stopping.signal);
addMigrateCommands(program);
for (const command of program.commands.flatMap((one) => [one, ...one.commands])) command.exitOverride();

try {
  await program.parseAsync();
} catch (error) {
  if (error instanceof CommanderError) {
    // It has written its message itself; `--help` ends with 0.
    process.exitCode = error.exitCode === 0 ? exitCodes.done : exitCodes.usage;
  } else {
    process.exitCode = exitCodeOf(error);
    process.stderr.write(`mailroom: ${error instanceof Error ? error.message : String(error)}\n`);
  }
}
