import type { MailroomEvents } from '../observability/index.js';

/** Messages of one kind that were handled after one of their entity with a higher sequence. */
export interface LateCount {
  readonly source: string;
  readonly type: string;
  /** Since this process started. */
  readonly count: number;
}

/** Counts the messages that came too late for their reorder window. Only types that an option names can, so it stays small. */
export class LateMessages {
  private readonly known = new Map<string, LateCount>();

  constructor(events: MailroomEvents) {
    events.on('late', ({ source, type }) => {
      const key = `${source}\0${type}`;
      this.known.set(key, { source, type, count: (this.known.get(key)?.count ?? 0) + 1 });
    });
  }

  counts(): LateCount[] {
    return [...this.known.values()];
  }
}
