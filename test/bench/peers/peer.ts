import type { Pace } from '../harness/steady.js';

/** What a peer made of a backlog of messages with a handler that does nothing. */
export interface PeerRun extends Pace {
  readonly lost: number;
  readonly doubled: number;
}

/** What people use instead of ours. */
export interface Peer {
  readonly name: string;
  /** How it was set up, for the table. */
  readonly setUp: string;
  /** Puts so many messages of `payload` into its queue, lets it handle them, and removes all of it again. */
  drain(messages: number, payload: unknown): Promise<PeerRun>;
}

/** Counts the calls of a peer's handler; `payload.n` tells one message from another. */
export class Calls {
  private readonly times = new Map<number, number>();

  note(n: number): void {
    this.times.set(n, (this.times.get(n) ?? 0) + 1);
  }

  wrong(messages: number): Pick<PeerRun, 'lost' | 'doubled'> {
    const calls = [...this.times.values()].reduce((sum, times) => sum + times, 0);
    return { lost: messages - this.times.size, doubled: calls - this.times.size };
  }
}
