import type { ControlPool } from '../database/index.js';
import type { BoxTable } from '../delivery/index.js';
import { collectStats, type InboxStats, type LiveParts } from './inbox-stats.js';
import { InboxStatsStore } from './inbox-stats.store.js';
import { type KindCheck, type WaitReason, whyWaiting } from './why.js';

/** What a person can ask the inbox while it runs. */
export class InboxInsight {
  private readonly stored: InboxStatsStore;

  constructor(
    private readonly pool: ControlPool,
    private readonly table: BoxTable,
    private readonly live: LiveParts,
  ) {
    this.stored = new InboxStatsStore(pool, table);
  }

  stats(): Promise<InboxStats> {
    return collectStats(this.stored, this.live);
  }

  why(id: string): Promise<WaitReason> {
    return whyWaiting(id, this.pool, this.table, this.checkKind, this.live.parts.order.reorder);
  }

  private readonly checkKind: KindCheck = (source, type) => {
    const readiness = this.live.parts.box.readiness(source, type);
    if (readiness.kind === 'ready') return null;
    if (readiness.kind === 'unknown')
      return { code: 'no-handler', text: `this instance has no handler for ${source}/${type}` };
    if (readiness.kind === 'closed-off')
      return { code: 'closed-off', text: `${readiness.reason}; asked again in ${readiness.retryInMs} ms` };
    return { code: 'paused', text: 'its kind is paused in this instance' };
  };
}
