import type { AttemptEnd, ClosedOff, Permit } from '../delivery/index.js';
import { PermanentFailureError } from '../errors/permanent-failure.error.js';
import type { MailroomEvents } from '../observability/index.js';
import { Breaker, type BreakerRules, type BreakerState, type CallResult, type Pressure } from '../pressure/index.js';
import { batchPace } from './batch-pace.js';
import type { RegisteredHandler } from './handler-registry.js';

/** One breaker, as it stands in this process. */
export interface BreakerSnapshot {
  readonly source: string;
  readonly type: string;
  readonly state: BreakerState;
  /** Calls that count in the window; 0 unless it is closed. */
  readonly calls: number;
  readonly failures: number;
  readonly slow: number;
  /** Until messages go through again; 0 when they do. */
  readonly retryInMs: number;
}

export interface AdmissionOptions {
  /** Null: no breakers. */
  readonly breaker: BreakerRules | null;
  /** How long a handler that never settles keeps its place of `maxConcurrent`. */
  readonly orphanAfterMs: number;
}

/** Types come with pushes, so their number has a limit: beyond it a breaker that was not used for longest is forgotten. */
const mostBreakers = 1_000;

/** Whether a handler may be called now: by the breaker of the source and type, and by the handler's own limits. */
export class HandlerAdmission {
  private readonly known = new Map<string, { source: string; type: string; breaker: Breaker }>();

  constructor(
    private readonly options: AdmissionOptions,
    private readonly events: MailroomEvents,
    private readonly pressure: Pick<Pressure, 'handled'> = { handled: () => undefined },
    private readonly now: () => number = () => performance.now(),
  ) {}

  /** Null: it may. */
  closedOff(source: string, type: string, { limiter, batch }: RegisteredHandler): ClosedOff | null {
    const breakerMs = this.breakerOf(source, type)?.waitMs() ?? 0;
    if (breakerMs > 0)
      return { kind: 'closed-off', retryInMs: Math.ceil(breakerMs), reason: 'its breaker is open', pace: null };
    const limitMs = limiter?.waitMs() ?? 0;
    if (!limiter || limitMs <= 0) return null;
    const pace = batch ? batchPace(limiter, batch.callSize) : limiter;
    return { kind: 'closed-off', retryInMs: Math.ceil(limitMs), reason: 'its limit is reached', pace };
  }

  /** Takes the leave for one attempt, after `closedOff` gave null in the same turn of the event loop. */
  permit(source: string, type: string, { limiter, batch }: RegisteredHandler): Permit {
    const { now } = this;
    const call = this.breakerOf(source, type)?.begin();
    const place = limiter?.take();
    let startedAt = now();
    return {
      started: () => {
        startedAt = now();
        place?.start();
      },
      ended: (end) => {
        call?.end(resultOf(end), now() - startedAt);
        // The time of a batch follows its size, so it says nothing about pressure.
        if (!batch && end.kind !== 'interrupted') this.pressure.handled(source, type, now() - startedAt);
        if (end.kind === 'timed-out' || end.kind === 'interrupted')
          place?.endWith(end.settled, this.options.orphanAfterMs);
        else place?.end();
      },
      giveBack: () => {
        call?.end('neutral', 0);
        place?.end();
      },
    };
  }

  /** The breakers of the kinds that were handled in this process, those that are not closed first. */
  breakers(): BreakerSnapshot[] {
    return [...this.known.values()]
      .map(({ source, type, breaker }) => ({
        source,
        type,
        state: breaker.state,
        ...breaker.counts(),
        retryInMs: Math.ceil(breaker.waitMs()),
      }))
      .sort((one, other) => Number(one.state === 'closed') - Number(other.state === 'closed'));
  }

  private breakerOf(source: string, type: string): Breaker | null {
    if (!this.options.breaker) return null;
    const key = `${source}\0${type}`;
    let entry = this.known.get(key);
    if (entry) {
      this.known.delete(key);
    } else {
      const onChange = (state: BreakerState) => this.events.emit({ name: 'breaker', source, type, state });
      entry = { source, type, breaker: new Breaker(this.options.breaker, this.now, onChange) };
    }
    this.known.set(key, entry);
    const [oldest] = this.known.keys();
    if (this.known.size > mostBreakers && oldest !== undefined) this.known.delete(oldest);
    return entry.breaker;
  }
}

/**
 * What an attempt says about the downstream. A permanent failure is about the message, so it says nothing; neither does
 * an attempt that was cut short by a shutdown or a lost lane. Everything else that is thrown is a failure.
 */
function resultOf(end: AttemptEnd): CallResult {
  switch (end.kind) {
    case 'returned':
      return 'success';
    case 'threw':
      return end.error instanceof PermanentFailureError ? 'neutral' : 'failure';
    case 'timed-out':
      return 'failure';
    case 'interrupted':
      return 'neutral';
  }
}
