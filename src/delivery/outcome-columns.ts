import type { Outcome } from '../message/outcome.js';
import type { BoxTable, StatusWords } from './box-table.js';
import type { Claim } from './claim.js';

export interface Completion {
  readonly claim: Claim;
  readonly outcome: Outcome;
  /** Keeps the entity closed to its followers after a failure, until a person decides. */
  readonly park: boolean;
}

/** The values of an outcome's columns, in the order of `outcomeSet`: status, attempts, due (twice), open, finished, kind, message. */
export type OutcomeValues = readonly [unknown, unknown, unknown, unknown, unknown, unknown, unknown, unknown];

/** SET of an outcome over alias `m`; it ends the claim. */
export function outcomeSet({ open, finishedAt, mapped }: BoxTable): string {
  return mapped`SET m.status = ?, m.attempts = m.attempts - ?,
      m.next_attempt_at = IF(? IS NULL, m.next_attempt_at, UTC_TIMESTAMP(3) + INTERVAL ? MICROSECOND),
      m.${open} = IF(?, NULL, m.${open}), m.${finishedAt} = IF(?, UTC_TIMESTAMP(3), m.${finishedAt}),
      m.error_kind = ?, m.error_message = ?,
      m.claim_token = NULL, m.claimed_by = NULL, m.claimed_until = NULL, m.updated_at = UTC_TIMESTAMP(3)`;
}

/** WHERE that holds for a claim that is still ours; values: id, token. */
export function ofClaim({ id, words, mapped }: BoxTable): string {
  return mapped`WHERE m.${id} = ? AND m.status = '${words.working}' AND m.claim_token = ?`;
}

export function outcomeValues(words: StatusWords, { outcome, park }: Completion): OutcomeValues {
  const status = statusAfter(words, outcome);
  switch (outcome.kind) {
    case 'success':
      return [status, 0, null, 0, 1, 1, null, null];
    case 'failed':
      return [status, 0, null, 0, park ? 0 : 1, 1, outcome.error.kind, outcome.error.message];
    case 'retry': {
      const micros = Math.round(outcome.delayMs * 1000);
      return [status, 0, micros, micros, 0, 0, outcome.error.kind, outcome.error.message];
    }
    case 'released':
      return [status, 1, null, 0, 0, 0, null, null];
  }
}

/** Where a message stands after an outcome. */
export function statusAfter(words: StatusWords, { kind }: Outcome): string {
  switch (kind) {
    case 'success':
      return words.done;
    case 'failed':
      return words.failed;
    case 'retry':
    case 'released':
      return 'pending';
  }
}
