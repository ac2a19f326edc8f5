import type { BoxProbe } from '../observability/index.js';
import type { InboxParts } from './build-inbox.js';

/** Beyond its longest pass a lane's loop gets this much until it counts as standing still. */
const stallSlackMs = 120_000;

/** What metrics and health may ask of the inbox. */
export function inboxProbe(parts: InboxParts, lifecycle: { readonly isDraining: boolean }): BoxProbe {
  const { options, pool, consumer, keeper, service } = parts;
  return {
    box: 'inbox',
    isDraining: () => lifecycle.isDraining,
    write: () => pool.writeProbe(),
    redis: options.lease.backend === 'redis' ? () => keeper.probe() : null,
    longestWaitMs: () => pool.longestWaitMs(),
    oldestTurnMs: () => consumer.oldestTurnMs(),
    stallAfterMs: options.batchSize * options.handlerTimeout + stallSlackMs,
    async stats() {
      const { counts, oldestDueMs, inFlight } = await service.stats();
      const numbers = Object.entries(counts).map(([status, { count }]) => [status, count] as const);
      return { counts: Object.fromEntries(numbers), oldestDueMs, inFlight: inFlight.length };
    },
  };
}
