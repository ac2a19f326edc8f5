import type { SchedulerRegistry } from '@nestjs/schedule';
import {
  announceRecovered,
  type ClaimsInHand,
  CompetingAttempt,
  type CompetingParts,
  CompetingRunner,
  type CompetingWork,
  type InHand,
  type JobEnd,
  messageFacts,
  type PassEnd,
  type RecoveryStore,
  recoveryBatch,
  type SessionPool,
  type SweepPosition,
} from '../delivery/index.js';
import type { MailroomEvents, Tracing } from '../observability/index.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import type { BacklogAlarm } from '../pressure/index.js';
import { FixedDelayLoop } from '../schedule/index.js';
import { outgoingFacts } from './outbox-events.js';
import type { ResolvedOutboxOptions } from './outbox-options.js';
import type { ReceiverStore } from './receiver.store.js';
import type { RelayBox, Way } from './relay-box.js';
import { SendJob } from './send-job.js';
import type { TransportBreakers } from './transport-breakers.js';

/** Recovery and re-check go on without a pause while batches are full, but not for ever. */
const mostBatches = 100;
/** Held messages that one pass looks at. */
const sweepSize = 500;

export interface RelayParts {
  readonly parts: CompetingParts;
  readonly box: RelayBox;
  readonly breakers: TransportBreakers;
  readonly receivers: ReceiverStore;
  readonly recovery: RecoveryStore;
  readonly events: MailroomEvents;
  readonly tracing: Tracing;
  readonly alarm: Pick<BacklogAlarm, 'look'>;
}

/** Sends what was committed, beside the relays of other instances, on loops that never die. */
export class Relay {
  private readonly logger = new MailroomLogger('OutboxRelay');
  private readonly runner: CompetingRunner;
  private readonly tending: FixedDelayLoop;
  private sweptTo: SweepPosition | null = null;
  private started = false;

  constructor(
    private readonly options: ResolvedOutboxOptions,
    private readonly relay: RelayParts,
    registry: SchedulerRegistry | undefined,
  ) {
    this.runner = new CompetingRunner(
      relay.parts,
      {
        batchSize: options.batchSize,
        concurrency: () => options.concurrency,
        claimMs: options.claimTtl,
        // One slow way out must not stop the others: its own breaker does that.
        timeoutsPerRound: Number.POSITIVE_INFINITY,
        pauseMs: options.pollInterval,
        tickMs: options.pollInterval,
        continuous: true,
        loopName: 'mailroom:outbox:relay',
        lanes: () => [0],
      },
      (hand, sessions) => this.workOf(hand, sessions),
      (error) => this.failed(error),
      registry,
    );
    this.tending = new FixedDelayLoop({
      name: 'mailroom:outbox:recovery',
      delayMs: Math.min(options.recoveryInterval, options.parkRecheck),
      passDeadlineMs: 60_000,
      pass: () => this.tend(),
      onError: (error) => this.failed(error),
      registry,
    });
  }

  start(): void {
    if (!this.options.enabled || this.started) return;
    this.started = true;
    this.runner.start();
    this.tending.start();
  }

  /** From start to stop, where `outbox.enabled` is set. */
  get isRunning(): boolean {
    return this.started;
  }

  /** Something was committed, or somebody came online. */
  wake(): void {
    if (this.started) this.runner.wake();
  }

  /** One pass, now: claims a batch and waits until it is done. */
  runOnce(): Promise<PassEnd> {
    return this.runner.runOnce();
  }

  /** One pass over what owners left behind, what waits aside, and what is parked. */
  async tend(): Promise<void> {
    const { recovery, parts, receivers, events } = this.relay;
    let moved = 0;
    for (let batch = 1; batch <= mostBatches; batch++) {
      const recovered = await recovery.recoverExpired();
      await announceRecovered(recovered, parts);
      moved += recovered.length;
      if (recovered.length < recoveryBatch) break;
    }
    for (let batch = 1; batch <= mostBatches; batch++) {
      const { expired, tried, more } = await receivers.recheck();
      moved += tried;
      for (const message of expired) {
        const facts = outgoingFacts(messageFacts(message, Number(message.attempts)));
        events.emit({ name: 'dead', ...facts, durationMs: 0, errorKind: 'expired' });
        if (message.open !== null) await parts.order.comeBack(message.open);
      }
      if (!more) break;
    }
    this.sweptTo = await parts.order.repair(this.sweptTo, sweepSize);
    if (moved > 0) this.wake();
    await this.relay.alarm.look();
  }

  /** Milliseconds since the slowest loop last turned; 0 when nothing runs here. */
  ageMs(): number {
    return this.started ? this.runner.ageMs() : 0;
  }

  /** Claims nothing more, lets sends in flight end, and gives them up after `graceMs`. */
  /** Messages that are being sent now. */
  get inFlight(): number {
    return this.runner.inWork;
  }

  async stop(graceMs: number): Promise<void> {
    this.started = false;
    await Promise.all([this.runner.stop(graceMs), this.tending.stop()]);
  }

  private workOf(hand: ClaimsInHand, sessions: SessionPool): CompetingWork {
    const { parts, box, breakers, receivers, events, tracing } = this.relay;
    const local = new CompetingAttempt(parts, hand, sessions);
    const sends = new SendJob(parts, this.options, box, breakers, receivers, hand, events, tracing);
    return {
      together: (turn) => together(turn, this.options.batchSize),
      run: async (job, until): Promise<JobEnd> => {
        const [first] = job;
        const way = wayOf(first);
        if (way?.transport) return sends.run(job, way, way.transport, until.deadline);
        return first ? local.run(first, until) : { closed: [], timedOut: false };
      },
    };
  }

  /** Tells that a pass, or work beside it, failed. */
  failed(error: unknown): void {
    this.relay.events.emit({ name: 'relay-failed', error });
    const { message, code } = error as { message?: string; code?: string };
    this.logger.error({ msg: 'a pass failed; the next one comes after a pause', code, error: message });
  }
}

/** Messages that the first one's transport takes with it: what lies together in the queue and leaves the same way. */
function together(turn: readonly InHand[], atMost: number): readonly InHand[] {
  const way = wayOf(turn[0]);
  if (!way?.transport) return turn.slice(0, 1);
  const size = Math.min(atMost, Math.max(1, way.transport.batchSize ?? 1));
  const other = turn.findIndex((message) => wayOf(message) !== way);
  return turn.slice(0, Math.min(size, other < 0 ? turn.length : other));
}

function wayOf(message: InHand | undefined): Way | undefined {
  return message?.handler as Way | undefined;
}
