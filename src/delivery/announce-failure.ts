import type { Outcome } from '../message/outcome.js';
import type { MailroomEvents } from '../observability/index.js';
import type { Candidate } from './candidate.js';
import { type MessageFacts, messageFacts } from './message-facts.js';

/** Tells that an attempt failed, after its outcome was written. */
export function announceFailure(
  events: Pick<MailroomEvents, 'emit'>,
  candidate: Candidate,
  outcome: Outcome,
  durationMs: number,
): void {
  const facts = attemptFacts(candidate);
  if (outcome.kind === 'failed') events.emit({ name: 'failed', ...facts, durationMs, errorKind: outcome.error.kind });
  if (outcome.kind === 'retry') {
    const { delayMs, error } = outcome;
    events.emit({ name: 'retrying', ...facts, durationMs, errorKind: error.kind, delayMs });
  }
}

/** What every event of an attempt says. The claim counted the attempt after the message was read. */
export function attemptFacts(candidate: Candidate): MessageFacts {
  return messageFacts(candidate, Number(candidate.attempts) + 1);
}
