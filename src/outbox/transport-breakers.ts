import type { MailroomEvents } from '../observability/index.js';
import { Breaker, type BreakerCall, type BreakerRules } from '../pressure/index.js';

/** Topics come from the table, so the number of breakers has a limit: beyond it the oldest one is forgotten. */
const mostBreakers = 1_000;

/**
 * One breaker for each transport, and for the local one each topic: while it fails, its messages are put off without an
 * attempt, others go on.
 */
export class TransportBreakers {
  private readonly breakers = new Map<string, Breaker>();

  constructor(
    private readonly rules: BreakerRules | null,
    private readonly events: MailroomEvents,
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Milliseconds until the way may be tried; 0: now. */
  waitMs(way: string): number {
    return this.breakerOf(way)?.waitMs() ?? 0;
  }

  begin(way: string): BreakerCall | undefined {
    return this.breakerOf(way)?.begin();
  }

  states(): { readonly way: string; readonly state: Breaker['state'] }[] {
    return [...this.breakers].map(([way, { state }]) => ({ way, state }));
  }

  private breakerOf(way: string): Breaker | null {
    if (!this.rules) return null;
    const known = this.breakers.get(way);
    if (known) return known;
    const [oldest] = this.breakers.keys();
    if (this.breakers.size >= mostBreakers && oldest !== undefined) this.breakers.delete(oldest);
    const onChange = (state: Breaker['state']) =>
      this.events.emit({ name: 'transport-breaker', transport: way, state });
    const breaker = new Breaker(this.rules, this.now, onChange);
    this.breakers.set(way, breaker);
    return breaker;
  }
}
