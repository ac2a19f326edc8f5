import type { Candidate } from './candidate.js';
import type { Ordered, Place, Position, ReorderStore } from './reorder.store.js';
import type { OpenMessage } from './turn.js';

/**
 * What came of asking for a message's turn. `again`: others were put before it, so the queue has to be read anew.
 * `aside`: its entity waits, and is out of the queue.
 */
export type TurnAnswer = 'now' | 'again' | 'aside' | 'gone';

/** The turns of one round in entities whose source has a reorder window; all others are none of its business. */
export class LaneTurns {
  /** Messages that this round put before others of their entity. */
  private readonly broughtForward = new Set<string>();
  /** Entities of which messages are aside, as far as this round knows. */
  private readonly steppedAside = new Set<string>();
  private readonly positions = new Map<string, Position>();

  constructor(private readonly store: ReorderStore | null) {}

  decides(candidate: Candidate): candidate is Candidate & Ordered {
    return candidate.open !== null && (this.store?.ruleOf(candidate.source) ?? null) !== null;
  }

  /** Where the message stood when its turn came; null: it is none of those that are put in order. */
  positionOf({ id }: Candidate): Position | null {
    return this.positions.get(id) ?? null;
  }

  /** @param inWork messages that are taken for finished */
  async ask(candidate: Candidate & Ordered, inWork: ReadonlySet<string>): Promise<TurnAnswer> {
    const place = await this.store?.placeOf(candidate, inWork);
    if (!place) return 'gone';
    const { turn, position, others } = place;
    if (place.othersHeld) this.steppedAside.add(candidate.open);
    switch (turn.kind) {
      case 'gone':
        return 'gone';
      case 'now':
        if (position) this.positions.set(candidate.id, position);
        return 'now';
      case 'behind':
        return this.stepAside(candidate, others, turn.head);
      case 'after': {
        const [first] = turn.earlier;
        // It was put first before, and something else keeps it: its kind is paused, or it failed and is due again.
        if (first && this.broughtForward.has(first.id)) return this.stepAside(candidate, others, first);
        for (const { id } of turn.earlier) this.broughtForward.add(id);
        await this.store?.bringForward(turn.earlier, candidate);
        return 'again';
      }
    }
  }

  /** The message is finished. True: others of its entity may have come back into the queue. */
  async close({ open, source }: Candidate & Ordered): Promise<boolean> {
    if (!this.steppedAside.has(open)) return false;
    await this.store?.comeBack(open, source);
    return true;
  }

  private async stepAside(
    candidate: Candidate & Ordered,
    others: Place['others'],
    head: OpenMessage,
  ): Promise<TurnAnswer> {
    this.steppedAside.add(candidate.open);
    await this.store?.stepAside(candidate, others, head);
    return 'aside';
  }
}
