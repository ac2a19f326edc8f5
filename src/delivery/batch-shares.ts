import { mostBytes } from './batch-rules.js';
import type { DueMessage } from './candidate.js';
import type { LaneHandler, Permit, Readiness } from './lane-handler.js';
import type { OneByOne } from './one-by-one.js';

interface Share {
  readonly handler: LaneHandler;
  readonly permit: Permit;
  /** Messages that still fit. */
  left: number;
  bytesLeft: number;
}

/** Where competing consumers count messages that are to be tried one by one: they have no lane of their own. */
export const noLane = -1;

/**
 * Messages of one kind that are claimed in one look for one call of a batch handler: they share its permit. A suspect is
 * claimed alone, so it never comes here beside others.
 */
export class BatchShares {
  private readonly shares = new Map<string, Share>();

  constructor(private readonly oneByOne: OneByOne) {}

  /** Whether a message can be handled: in the call that others of its kind are claimed for, or as `ask` says. */
  readiness(kind: string, message: DueMessage, ask: () => Readiness): Readiness {
    const share = this.shares.get(kind);
    const bytes = share?.handler.batch?.bytesOf(message) ?? 0;
    if (share && share.left > 0 && share.bytesLeft >= bytes)
      return {
        kind: 'ready',
        handler: share.handler,
        permit: () => {
          share.left--;
          share.bytesLeft -= bytes;
          return share.permit;
        },
      };
    const readiness = ask();
    if (readiness.kind !== 'ready' || !readiness.handler.batch) return readiness;
    const { handler } = readiness;
    return { ...readiness, permit: () => this.open(kind, message, handler, readiness.permit()) };
  }

  private open(kind: string, message: DueMessage, handler: LaneHandler, permit: Permit): Permit {
    const { batch } = handler;
    const alone = !batch || this.oneByOne.take(noLane, message);
    const bytesLeft = mostBytes - (batch?.bytesOf(message) ?? 0);
    this.shares.set(kind, { handler, permit, left: alone ? 0 : batch.size - 1, bytesLeft });
    return permit;
  }
}
