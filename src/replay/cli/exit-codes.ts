import { EditRefusedError } from '../../errors/edit-refused.error.js';
import { OverlappingRunError } from '../../errors/overlapping-run.error.js';
import { SchemaMismatchError } from '../../errors/schema-mismatch.error.js';

/** How the command line ends, for scripts. */
export const exitCodes = {
  done: 0,
  /** The database did not answer, or something unexpected. */
  failed: 1,
  /** A wrong option, or a selection that cannot be meant. Nothing was changed. */
  usage: 2,
  /** Another run has some of the messages. Nothing was changed. */
  overlap: 3,
  /** There is no such message or run. */
  missing: 4,
  /** The run ended before it had done all of its messages. */
  cancelled: 5,
  /** The tables are not those that this release works with. */
  schema: 6,
} as const;

/** There is none of that id. */
export class NotThereError extends Error {}

/** An option that commander cannot check. */
export class UsageError extends Error {}

export function exitCodeOf(error: unknown): number {
  if (error instanceof OverlappingRunError) return exitCodes.overlap;
  if (error instanceof NotThereError) return exitCodes.missing;
  if (error instanceof SchemaMismatchError) return exitCodes.schema;
  if (error instanceof UsageError) return exitCodes.usage;
  if (error instanceof EditRefusedError) return error.problem === 'not-there' ? exitCodes.missing : exitCodes.usage;
  const { code } = error as { readonly code?: unknown };
  return code === 'MAILROOM_INVALID_SELECTION' || code === 'MAILROOM_INVALID_OPTIONS'
    ? exitCodes.usage
    : exitCodes.failed;
}
