import type { Row } from '../database/index.js';
import type { ToldMessage } from './message-facts.js';

/** A due message as it is read ahead. */
export interface DueMessage extends Row, ToldMessage {
  /** Attempts started so far. */
  readonly attempts: string;
  readonly error_kind: string | null;
  /** Hash of its entity or order unit; null: it has no order to keep. */
  readonly open: string | null;
  readonly due: string;
}

/** A due message together with its neighbours in the order of its entity. */
export interface Candidate extends DueMessage {
  /** The next older unfinished message of its entity: while there is one, this one waits. */
  readonly previous: string | null;
  /** Status of the next younger unfinished message of its entity. */
  readonly next_status: string | null;
}

/** `error_kind` of a message whose owner disappeared in the middle: it is next run alone. */
export const orphanedKind = 'orphaned';
/** `error_kind` of a message that is given up because it took its process down, alone, once too often. */
export const crashedKind = 'crashed';

/** Its last attempt ended with its owner. It may be what ended it, so nothing else may run beside it. */
export function isSuspect(candidate: DueMessage): boolean {
  return candidate.error_kind === orphanedKind;
}

/** Mark at the end of `claimed_by`: the message was running alone in its process. */
const aloneMark = '!';

export function claimant(owner: string, alone: boolean): string {
  return alone ? owner + aloneMark : owner;
}

export function ranAlone(claimedBy: string | null): boolean {
  return claimedBy?.endsWith(aloneMark) ?? false;
}
