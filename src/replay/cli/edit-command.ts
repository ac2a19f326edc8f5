import { readFile } from 'node:fs/promises';
import { userInfo } from 'node:os';
import type { Command } from 'commander';
import { NotThereError, UsageError } from './exit-codes.js';
import { fields, say } from './print.js';
import { withSession } from './session.js';

interface EditFlags {
  readonly url?: string;
  readonly json?: boolean;
  readonly box: 'inbox' | 'outbox';
  readonly bodyFile?: string;
  readonly reason?: string;
  readonly actor: string;
  readonly yes?: boolean;
}

/** `edit`: a new message with the body of a file in the place of one that ended. Off unless MAILROOM_EDIT is `true`. */
export function addEditCommand(program: Command): void {
  program
    .command('edit')
    .description('puts a message with another body in the place of one that ended; needs MAILROOM_EDIT=true')
    .argument('<id>')
    .option('--box <box>', 'which box', 'inbox')
    .option('--body-file <path>', 'the whole new body')
    .option('--reason <text>', 'why, for the record; required with --yes')
    .option('--actor <name>', 'who, for the record', userInfo().username)
    .option('--yes', 'do it; without it nothing is changed')
    .action((id: string, _flags: unknown, command: Command) => edit(id, command.optsWithGlobals<EditFlags>()));
}

async function edit(id: string, flags: EditFlags): Promise<void> {
  const { json, box, bodyFile, reason, actor, yes } = flags;
  if (bodyFile === undefined) throw new UsageError('--body-file: write the path of a file with the whole new body');
  const body = await readFile(bodyFile).catch((error: Error) => {
    throw new UsageError(`--body-file: ${error.message}`);
  });
  await withSession(flags, async ({ replay }) => {
    if (yes) {
      if (reason === undefined) throw new UsageError('--reason: write why, for the record');
      const edited = await replay.edit(id, { box, body, reason, actor });
      return say(json, edited, `Message ${edited.messageId} is in the place of ${id}, by run ${edited.runId}.`);
    }
    const message = await replay.message(id, box);
    if (!message) throw new NotThereError(`there is no message ${id}`);
    const text = `${fields(message)}\n\nThe new body has ${body.length} bytes. Nothing was changed. Add --yes to do it.`;
    say(json, { dryRun: true, message, newBodyBytes: body.length }, text);
  });
}
