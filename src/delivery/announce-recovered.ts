import type { MailroomEvents } from '../observability/index.js';
import { crashedKind } from './candidate.js';
import type { EntityOrderStore } from './entity-order.store.js';
import { messageFacts } from './message-facts.js';
import type { Recovered } from './recovery.store.js';

/** Tells what recovery did, after its commit, and lets the followers of messages that ended with it come back. */
export async function announceRecovered(
  recovered: readonly Recovered[],
  {
    events,
    order,
    box,
  }: {
    readonly events: Pick<MailroomEvents, 'emit'>;
    readonly order: EntityOrderStore;
    readonly box: { parksOn(source: string): boolean };
  },
): Promise<void> {
  for (const { orphan, status } of recovered) {
    const facts = messageFacts(orphan, Number(orphan.attempts));
    events.emit({ name: 'recovered', ...facts, status });
    if (status !== 'failed') continue;
    events.emit({ name: 'failed', ...facts, durationMs: 0, errorKind: crashedKind });
    if (orphan.open !== null && !box.parksOn(orphan.source)) await order.comeBack(orphan.open);
  }
}
