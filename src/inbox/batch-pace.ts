import type { Pace } from '../delivery/index.js';

/** Weight of the last call in the average: large enough to follow a change of load within some tens of calls. */
const weight = 0.1;

/** How many messages a call of a batch handler gets on average, lately. */
export class CallSize {
  private average: number;

  /** @param most as many until a call has shown how many there are */
  constructor(most: number) {
    this.average = most;
  }

  add(messages: number): void {
    this.average += (messages - this.average) * weight;
  }

  get messages(): number {
    return Math.max(1, this.average);
  }
}

/**
 * A limit counts calls, so messages that are put off for it fall due denser than calls may start: as many times as a call
 * has messages. Too dense, and they are put off again and again; too sparse, and calls get fewer messages than they could.
 */
export function batchPace(limit: Pace, size: CallSize): Pace {
  return {
    delayMs: () => limit.delayMs(),
    spacingMs: limit.spacingMs / size.messages,
    planned: (delayMs, count) => limit.planned(delayMs, count / size.messages),
  };
}
