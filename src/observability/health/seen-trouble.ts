import type { MailroomEvents } from '../events.js';
import { LastMinute } from './last-minute.js';

/** Refusals that are our fault: the sender was answered 503. */
const ours: ReadonlySet<string> = new Set(['overloaded', 'backlog', 'pool-busy', 'unavailable']);

/** What the events told of that health is about: the door's last minute, and breakers that are not closed. */
export class SeenTrouble {
  readonly door = new LastMinute();
  private readonly breakers = new Set<string>();
  private readonly ends: readonly (() => void)[];

  constructor(events: MailroomEvents) {
    const good = () => this.door.add('good');
    this.ends = [
      events.on('stored', good),
      events.on('duplicate', good),
      events.on('ignored', good),
      events.on('refused', ({ refusal }) => ours.has(refusal) && this.door.add('bad')),
      events.on('breaker', ({ source, type, state }) => this.breaker(`${source}/${type}`, state)),
      events.on('transport-breaker', ({ transport, state }) => this.breaker(transport, state)),
    ];
  }

  openBreakers(): string[] {
    return [...this.breakers].sort();
  }

  end(): void {
    for (const end of this.ends) end();
  }

  private breaker(name: string, state: 'closed' | 'open' | 'half-open'): void {
    if (state === 'closed') this.breakers.delete(name);
    else this.breakers.add(name);
  }
}
