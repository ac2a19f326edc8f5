import { z } from 'zod';
import { count, type Duration, duration } from '../config/index.js';

/** When somebody is told that too much waits in a box. */
export interface BacklogAlarmOptions {
  /** From so many waiting messages on. Default 500. */
  readonly messages?: number;
  /** Or when the oldest due message has been due for so long. Default 10m. */
  readonly oldest?: Duration;
  /** Shorter than this it is a burst and not told. Default 1m. */
  readonly for?: Duration;
}

export const backlogAlarmSchema = z
  .union(
    [
      z.literal(false),
      z.strictObject({
        messages: count(1, 10_000).default(500),
        oldest: duration({ min: 1_000 }).default(600_000),
        for: duration({ min: 0, max: 86_400_000 }).default(60_000),
      }),
    ],
    { error: "write false, or an object such as { messages: 500, oldest: '10m', for: '1m' }" },
  )
  .prefault({});

/** What waits in a box: messages counted up to the alarm's limit; the age is null when none is due. */
export interface Waiting {
  readonly messages: number;
  readonly oldestDueMs: number | null;
}

/** Over again: only below this share of both limits, so that it does not ring with every message. */
const clearedBelow = 0.8;

/** Tells once that too much has been waiting for too long, and once that it is over. Owns no timer: somebody looks. */
export class BacklogAlarm {
  private aboveSince: number | null = null;
  private isRaised = false;

  constructor(
    private readonly rule: z.output<typeof backlogAlarmSchema>,
    private readonly ask: (countTo: number) => Promise<Waiting>,
    private readonly onChange: (state: 'raised' | 'cleared', waiting: Waiting) => void,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Asks nothing without an alarm. @throws what asking throws */
  async look(): Promise<void> {
    if (this.rule === false) return;
    const waiting = await this.ask(this.rule.messages);
    if (this.isRaised) return this.lookForTheEnd(waiting);
    if (!this.isAbove(waiting, 1)) {
      this.aboveSince = null;
      return;
    }
    this.aboveSince ??= this.now();
    if (this.now() - this.aboveSince < this.rule.for) return;
    this.isRaised = true;
    this.onChange('raised', waiting);
  }

  private lookForTheEnd(waiting: Waiting): void {
    if (this.isAbove(waiting, clearedBelow)) return;
    this.isRaised = false;
    this.aboveSince = null;
    this.onChange('cleared', waiting);
  }

  private isAbove({ messages, oldestDueMs }: Waiting, share: number): boolean {
    if (this.rule === false) return false;
    return messages >= this.rule.messages * share || (oldestDueMs ?? 0) >= this.rule.oldest * share;
  }
}
