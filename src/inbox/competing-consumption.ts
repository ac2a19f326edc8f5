import type { SchedulerRegistry } from '@nestjs/schedule';
import type { ControlPool } from '../database/index.js';
import {
  type BoxTable,
  ClaimStore,
  type CompetingBox,
  CompetingHandling,
  type CompetingParts,
  CompetingRunner,
  type GroupLockStore,
  type LaneParts,
  OutcomeBatch,
  OutcomeWriter,
  type PassEnd,
  Stragglers,
} from '../delivery/index.js';
import type { Pressure } from '../pressure/index.js';
import type { Consumption } from './consumption.js';
import type { ResolvedInboxOptions } from './inbox-options.js';

/** Messages that had stepped aside in a time with order; one recovery pass lets at most so many batches of 500 go. */
const mostReleases = 100;

/** All instances beside each other, without order. */
export class CompetingConsumption implements Consumption {
  private readonly runner: CompetingRunner;
  private readonly configured: readonly number[];
  private lanes: readonly number[];

  constructor(
    options: ResolvedInboxOptions,
    private readonly parts: CompetingParts,
    groups: GroupLockStore,
    pressure: Pressure,
    registry: SchedulerRegistry | undefined,
    onError: (lane: number | null, error: unknown) => void,
  ) {
    this.configured = Array.from({ length: options.lanes }, (_, lane) => lane);
    this.lanes = this.configured;
    this.runner = new CompetingRunner(
      parts,
      {
        batchSize: options.batchSize,
        concurrency: () => pressure.concurrency(options.concurrency),
        claimMs: options.orphanAfter,
        timeoutsPerRound: options.timeoutsPerRound,
        pauseMs: options.roundInterval,
        tickMs: options.tick,
        continuous: options.continuous,
        loopName: 'mailroom:inbox:competing',
        lanes: () => this.lanes,
      },
      (hand, sessions) => new CompetingHandling(parts, groups, hand, sessions),
      (error) => onError(null, error),
      registry,
    );
  }

  start(): void {
    this.runner.start();
  }

  wake(): void {
    this.runner.wake();
  }

  wakeAll(): void {
    this.runner.wake();
  }

  async runOnce(): Promise<PassEnd[]> {
    return [await this.runner.runOnce()];
  }

  async adopt(lanes: readonly number[]): Promise<void> {
    this.lanes = [...this.configured, ...lanes];
  }

  async tidy(): Promise<void> {
    for (let batch = 0; batch < mostReleases && (await this.parts.order.releaseHeld()); batch++);
  }

  ageMs(): number {
    return this.runner.ageMs();
  }

  stop(graceMs: number): Promise<void> {
    return this.runner.stop(graceMs);
  }
}

/** Unordered: the order of entities is not looked at. */
export function competingParts(parts: LaneParts, pool: ControlPool, table: BoxTable): CompetingParts {
  const { order, crowds, events, dataSource, newSession, keeper } = parts;
  const store = new ClaimStore(pool, table);
  return {
    box: competingBox(parts),
    owner: keeper.owner,
    store,
    order,
    crowds,
    oneByOne: parts.oneByOne,
    neighbours: null,
    writer: new OutcomeWriter(store, table.words),
    successes: new OutcomeBatch(store),
    stragglers: new Stragglers(store, order, events),
    events,
    dataSource,
    newSession: () => newSession(),
  };
}

function competingBox({ box, unknown, closedOff }: LaneParts): CompetingBox {
  return {
    kindOf: ({ source, type }) => `${source}\0${type}`,
    readiness: ({ source, type }) => box.readiness(source, type),
    parksOn: (source) => box.parksOn(source),
    paused: () => box.paused(),
    putOff: async (lane, [first], why) => {
      if (!first) return 0;
      const { source, type } = first;
      return why === 'unknown' ? unknown.meet(lane, source, type) : closedOff.putOff(lane, source, type, why);
    },
    resumeInMs: (lane) => closedOff.resumeInMs(lane),
  };
}
