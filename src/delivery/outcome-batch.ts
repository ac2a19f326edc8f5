import type { Claim } from './claim.js';
import type { ClaimStore } from './claim.store.js';
import { byToken } from './claims-in-hand.js';

interface Waiting extends Claim {
  resolve(written: boolean | 'unknown'): void;
}

/** How long a success waits for company while another batch is being written. */
const longestWaitMs = 5;
/** Batches being written at the same time. */
const mostInFlight = 2;

/**
 * Writes the successes of handlers without a transaction together: at once when nothing is being written, else with
 * those that follow, at most 5 ms late. Whoever waits for one keeps its place until it is written.
 */
export class OutcomeBatch {
  private waiting: Waiting[] = [];
  private inFlight = 0;
  private soon: NodeJS.Immediate | undefined;
  private late: NodeJS.Timeout | undefined;

  constructor(private readonly store: ClaimStore) {}

  /**
   * True: the success stands. False: the message was not ours any more. 'unknown': the database did not answer, so the
   * outcome has to be written by itself, which looks first.
   */
  succeed({ id, token }: Claim): Promise<boolean | 'unknown'> {
    return new Promise((resolve) => {
      this.waiting.push({ id, token, resolve });
      if (this.inFlight === 0) this.soon ??= setImmediate(() => this.flush());
      else this.late ??= setTimeout(() => this.flush(), longestWaitMs);
    });
  }

  private flush(): void {
    clearImmediate(this.soon);
    clearTimeout(this.late);
    this.soon = undefined;
    this.late = undefined;
    if (this.waiting.length === 0 || this.inFlight >= mostInFlight) return;
    const batch = this.waiting;
    this.waiting = [];
    this.inFlight++;
    void Promise.all(byToken(batch).map((group) => this.write(group))).finally(() => {
      this.inFlight--;
      this.flush();
    });
  }

  /** Never rejects. */
  private async write(group: readonly Waiting[]): Promise<void> {
    const [first] = group;
    if (!first) return;
    const ids = group.map(({ id }) => id);
    try {
      const written = await this.store.succeed(first.token, ids);
      if (written === ids.length) for (const { resolve } of group) resolve(true);
      // Some were lost: which, the rows say.
      else for (const { resolve } of group) resolve('unknown');
    } catch {
      for (const { resolve } of group) resolve('unknown');
    }
  }
}
