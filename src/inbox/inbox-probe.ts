import { GaugesStore } from '../delivery/index.js';
import type { BoxProbe } from '../observability/index.js';
import type { InboxParts } from './build-inbox.js';
import { inboxTable } from './inbox-table.js';

/** Beyond its longest pass a lane's loop gets this much until it counts as standing still. */
const stallSlackMs = 120_000;

/** What metrics and health may ask of the inbox. */
export function inboxProbe(parts: InboxParts, lifecycle: { readonly isDraining: boolean }): BoxProbe {
  const { options, pool, consumer, keeper, service } = parts;
  const gauges = new GaugesStore(pool, inboxTable(options.table), 'inbox');
  return {
    box: 'inbox',
    isDraining: () => lifecycle.isDraining,
    write: () => pool.writeProbe(),
    redis: options.lease.backend === 'redis' ? () => keeper.probe() : null,
    longestWaitMs: () => pool.longestWaitMs(),
    oldestTurnMs: () => consumer.oldestTurnMs(),
    stallAfterMs: options.batchSize * options.handlerTimeout + stallSlackMs,
    gauges: () => gauges.read(),
    lanesHeld: () => (options.mode === 'ordered' ? keeper.heldCount : null),
    async stats() {
      const { counts, oldestDueMs, inFlight } = await service.stats();
      const numbers = Object.entries(counts).map(([status, { count }]) => [status, count] as const);
      return { counts: Object.fromEntries(numbers), oldestDueMs, inFlight: inFlight.length };
    },
  };
}
