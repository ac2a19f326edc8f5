import type { LaneParts } from '../delivery/index.js';
import type { InboxStatus } from '../message/inbox-status.js';
import type { BreakerSnapshot, HandlerAdmission } from './handler-admission.js';
import type { FlightEntry, InFlight } from './in-flight.js';
import type { PausedKind } from './inbox-operations.js';
import type { CappedCount, InboxStatsStore, LaneState } from './inbox-stats.store.js';
import type { LateCount, LateMessages } from './late-messages.js';

/** What runs in this process. */
export interface LiveParts {
  readonly parts: Pick<LaneParts, 'box' | 'keeper' | 'order'>;
  readonly inFlight: InFlight;
  readonly admission: HandlerAdmission;
  readonly late: LateMessages;
}

/** What the inbox looks like now: the table and the leases for all instances, the rest for this process. */
export interface InboxStats {
  /** Messages by status, each counted up to 10,000. */
  readonly counts: Readonly<Record<InboxStatus, CappedCount>>;
  /** How long the oldest due message has been due; null when none is. Messages that wait for a retry are not due. */
  readonly oldestDueMs: number | null;
  /** Lanes that hold unfinished messages or were ever held, by number. */
  readonly lanes: readonly LaneStats[];
  /** Handlers that are running in this process, longest first; those that went past their timeout included. */
  readonly inFlight: readonly FlightEntry[];
  /** What `pause()` holds in this process; null stands for every source or every type. Empty when nothing is paused. */
  readonly paused: readonly PausedKind[];
  /** Breakers of the kinds that were handled in this process, those that are not closed first. */
  readonly breakers: readonly BreakerSnapshot[];
  /** Messages that this process handled after one of their entity with a higher sequence, where a reorder window is set. */
  readonly late: readonly LateCount[];
}

export interface LaneStats extends LaneState {
  /** Held by this process. */
  readonly isHere: boolean;
}

/** Collects the numbers: one look into the claim index per status and per lane, never a walk over the table. */
export async function collectStats(
  store: InboxStatsStore,
  { parts, inFlight, admission, late }: LiveParts,
): Promise<InboxStats> {
  const [counts, lanes] = await Promise.all([store.counts(), store.lanes()]);
  const ages = lanes.flatMap(({ oldestDueMs }) => (oldestDueMs === null ? [] : [oldestDueMs]));
  return {
    counts,
    oldestDueMs: ages.length === 0 ? null : Math.max(...ages),
    lanes: lanes.map((lane) => ({ ...lane, isHere: lane.holder === parts.keeper.owner })),
    inFlight: inFlight.entries(),
    paused: parts.box.paused(),
    breakers: admission.breakers(),
    late: late.counts(),
  };
}
