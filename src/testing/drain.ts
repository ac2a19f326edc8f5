import type { InboxService } from '../inbox/index.js';

/** Rounds that `drainInbox` runs at most: a handler that feeds the inbox without end must not hang a test. */
const mostRounds = 1_000;

/**
 * Handles everything that is due now, round after round, and resolves when nothing is left. Retries that are due later
 * are not waited for. Works whether or not `inbox.enabled` is set.
 *
 * @example
 * await inbox.receive('orders', { rawBody: '{"eventId":"1"}' });
 * await drainInbox(inbox);
 */
export async function drainInbox(inbox: InboxService): Promise<void> {
  for (let round = 1; round <= mostRounds; round++) {
    const ends = await inbox.runOnce();
    if (ends.every((end) => end !== 'full' && end !== 'drained')) return;
  }
  throw new Error(`the inbox was not drained within ${mostRounds} rounds: does a handler push messages without end?`);
}
