import type { Member } from './batch-member.js';
import type { Interruption } from './lazy-abort.js';
import type { Completion } from './outcome-columns.js';
import type { Completed, Send } from './outcome-writer.js';

/**
 * What entitles this process to the outcomes of the messages of a batch: the lease of their lane, or their claims alone.
 * Each statement changes only rows for which that still stands.
 */
export interface BatchHold {
  /** By the local clock, so that it can be asked right before a COMMIT. */
  isHeld(members: readonly Member[]): boolean;
  /** What ends a call for these messages from outside. */
  interruptions(members: readonly Member[]): readonly Interruption[];
  /** Their claims are extended from now on. */
  keep(members: readonly Member[]): void;
  /** Not any more: their outcome is about to be written. */
  letGo(members: readonly Member[]): void;
  /** Marks all of them as successes; the number of rows that changed. Anything but all of them: roll back. */
  succeed(send: Send, members: readonly Member[]): Promise<number>;
  /** Gives them back, the attempt with them, to be due after `delayMs`; true if all were still ours. */
  giveBack(members: readonly Member[], delayMs: number): Promise<boolean>;
  /** Writes one outcome by itself; database trouble is waited out while it is held. */
  write(member: Member, completion: Completion): Promise<Completed>;
  /** After a COMMIT that was rejected: which of the two outcomes stands. */
  settle(member: Member, success: Completion, failure: Completion): Promise<Completed>;
  /** They are about to be marked: what of them has to be remembered goes into the same transaction. */
  remember(send: Send, members: readonly Member[]): Promise<void>;
  /** It ended, and what waited behind it may go on. */
  closed(member: Member): Promise<void>;
  /** It was handed over after messages that should have come later. */
  isLate(member: Member): boolean;
}
