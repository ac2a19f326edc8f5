export type InboxStatus = 'pending' | 'processing' | 'success' | 'failed' | 'held';

/**
 * Who may move a message where. Every statement that changes a status repeats its "from" in the WHERE.
 *
 * - pending -> processing: claim
 * - processing -> success | failed | pending: the outcome; recovery of an orphan; release at shutdown
 * - pending <-> held: a follower of a waiting message of its entity steps aside and comes back
 * - failed | success -> pending: replay by a person
 */
const transitions: Readonly<Record<InboxStatus, readonly InboxStatus[]>> = {
  pending: ['processing', 'held'],
  processing: ['success', 'failed', 'pending'],
  held: ['pending'],
  success: ['pending'],
  failed: ['pending'],
};

export function isAllowedInboxTransition(from: InboxStatus, to: InboxStatus): boolean {
  return transitions[from].includes(to);
}

export function isTerminalInboxStatus(status: InboxStatus): boolean {
  return status === 'success' || status === 'failed';
}
