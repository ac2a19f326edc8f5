import { GaugesStore } from '../delivery/index.js';
import type { BoxProbe } from '../observability/index.js';
import type { OutboxParts } from './build-outbox.js';
import { outboxTable } from './outbox-table.js';

/** Above the longest pass of the relay's loops, 120 s, and its pause. */
const stallAfterMs = 240_000;

/** What metrics and health may ask of the outbox. */
export function outboxProbe(parts: OutboxParts, lifecycle: { readonly isDraining: boolean }): BoxProbe {
  const { pool, relay, service } = parts;
  const gauges = new GaugesStore(pool, outboxTable, 'outbox');
  return {
    box: 'outbox',
    isDraining: () => lifecycle.isDraining,
    write: () => pool.writeProbe(),
    redis: null,
    longestWaitMs: () => pool.longestWaitMs(),
    oldestTurnMs: () => relay.ageMs(),
    stallAfterMs,
    gauges: () => gauges.read(),
    lanesHeld: () => null,
    async stats() {
      const { counts, oldestDueMs } = await service.stats();
      const numbers = Object.entries(counts).map(([status, { count }]) => [status, count] as const);
      return { counts: Object.fromEntries(numbers), oldestDueMs, inFlight: relay.inFlight };
    },
  };
}
