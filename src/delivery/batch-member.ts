import type { BatchRules } from './batch-rules.js';
import type { Candidate } from './candidate.js';
import type { Claim } from './claim.js';
import type { LaneHandler } from './lane-handler.js';
import { type MessageFacts, messageFacts } from './message-facts.js';

/** A message of a batch that is ours. */
export interface Member {
  readonly candidate: Candidate;
  /** All messages of a batch have one token. */
  readonly claim: Claim;
  /** 1 for its first attempt. */
  readonly attempt: number;
  /** Null: there are no groups. */
  readonly group: string | null;
}

/** What has to be known of the whole batch while its groups are worked off. */
export interface Batch {
  readonly handler: LaneHandler;
  readonly rules: BatchRules;
  /** Entities of which a message was left unfinished: what follows must not pass it. */
  readonly blocked: Set<string>;
  /** Calls in a row that ran out of time, those before the batch included. */
  timeouts: number;
}

/** In the order of their first message. */
export function groupsOf(members: readonly Member[]): Member[][] {
  const groups = new Map<string | null, Member[]>();
  for (const member of members) {
    const group = groups.get(member.group);
    if (group) group.push(member);
    else groups.set(member.group, [member]);
  }
  return [...groups.values()];
}

/** True when a later message of the call would pass one of its entity that failed. */
export function passesItsHead(members: readonly Member[], failed: ReadonlyMap<string, unknown>): boolean {
  const waiting = new Set<string>();
  for (const { candidate } of members) {
    if (candidate.open === null) continue;
    if (waiting.has(candidate.open)) return true;
    if (failed.has(candidate.id)) waiting.add(candidate.open);
  }
  return false;
}

/** What events tell of a message. */
export function factsOf({ candidate, attempt }: Member): MessageFacts {
  return messageFacts(candidate, attempt);
}
