import { isSuspect } from './candidate.js';
import type { ClaimsInHand } from './claims-in-hand.js';
import { byToken } from './claims-in-hand.js';
import { ComingBack } from './coming-back.js';
import type { ClaimedBatch, CompetingClaims } from './competing-claims.js';
import type { CompetingOptions, CompetingParts, CompetingWork, InHand, Until } from './competing-parts.js';
import type { SessionPool } from './session-pool.js';

const epoch = '1970-01-01 00:00:00.000';

interface LaneState {
  /** Due time from which the next look starts. */
  from: string;
  /** Local time before which the lane is not looked at. */
  notBefore: number;
  /** The last look found nothing: the next one asks first, without a transaction. */
  idle: boolean;
}

/** Why a pass ended; `working` and `full`: it is called again when a place becomes free. */
export type PassEnd = 'idle' | 'drained' | 'full' | 'working' | 'timeouts' | 'stopped';

/**
 * Keeps the places of this process filled: claims batches from the lanes in turn ahead of need, and starts a message as
 * soon as a place is free. Messages of one order unit are done one after the other.
 */
export class CompetingPump {
  private readonly lanes = new Map<number, LaneState>();
  private readonly returns: ComingBack;
  private readonly until: Until;
  private readonly queue: InHand[] = [];
  private readonly jobs = new Set<Promise<void>>();
  /** Messages in these jobs. */
  inWork = 0;
  /** `start` is called once more in this turn of the event loop, for all places that became free in it. */
  private startsSoon = false;
  /** Claimed and not settled: what waits for one of them is not in turn. */
  private readonly unsettled = new Set<string>();
  /** Closed since the last look began: what was read as waiting for one of them is in turn. */
  private readonly justClosed = new Set<string>();
  private turn = 0;
  private timeouts = 0;
  /** After too many timeouts: local time before which nothing is claimed, also when woken. */
  private pausedUntil = 0;
  /** A suspect is in hand: nothing runs beside it. */
  private alone = false;
  /** A suspect waits: nothing is claimed until nothing is in hand. */
  private quieting = false;
  private stopping = false;
  /** How often there was something new. */
  private wakes = 0;
  /** There was something new while a lane was looked at. */
  private missed = false;
  /** Messages claimed by this process so far. */
  claimed = 0;
  /** How often a lane was looked at so far. */
  looks = 0;

  constructor(
    private readonly parts: CompetingParts,
    private readonly options: CompetingOptions,
    private readonly claims: CompetingClaims,
    private readonly work: CompetingWork,
    private readonly hand: ClaimsInHand,
    private readonly sessions: SessionPool,
    deadline: AbortSignal,
    /** More can be claimed: call `pass` soon. */
    private readonly onHungry: () => void,
    private readonly onError: (error: unknown) => void,
  ) {
    const onReturned = () => {
      this.wake();
      this.onHungry();
    };
    this.until = { deadline, stopping: () => this.stopping };
    this.returns = new ComingBack(parts.order, onReturned, onError);
  }

  get inHand(): number {
    return this.queue.length + this.inWork;
  }

  /** There is something new: look at all lanes again. */
  wake(): void {
    this.wakes++;
    for (const state of this.lanes.values()) {
      state.notBefore = 0;
      state.from = epoch;
      // There is something, so asking first would be one round trip more.
      state.idle = false;
    }
  }

  /** Milliseconds until a lane should be looked at again; 0: at once when there is room. */
  nextLookMs(): number {
    const notBefore = Math.min(...this.options.lanes().map((lane) => this.stateOf(lane).notBefore));
    return Math.max(0, Math.max(notBefore, this.pausedUntil) - performance.now());
  }

  /** Claims until there is enough in hand or nothing more to claim. Does not wait for what was started. */
  async pass(): Promise<PassEnd> {
    let claimed = 0;
    for (;;) {
      const end = this.reasonNotToClaim();
      if (end) return end;
      const lane = this.nextLane();
      if (lane === null) {
        if (this.inHand === 0) await this.sessions.close();
        return claimed > 0 ? 'drained' : 'idle';
      }
      const batch = await this.look(lane);
      if (batch) {
        claimed += batch.taken.length;
        await this.take(batch.taken);
        if (batch.needsQuiet) this.quieting = true;
      }
      this.start();
      if (this.missed) {
        this.missed = false;
        return claimed > 0 ? 'drained' : 'idle';
      }
    }
  }

  /** Resolves when nothing is in hand. */
  async idle(): Promise<void> {
    while (this.jobs.size > 0 || this.startsSoon) {
      if (this.startsSoon) await new Promise<void>((resolve) => process.nextTick(resolve));
      else await Promise.race(this.jobs);
    }
    await this.returns.idle();
  }

  /** Claims and starts nothing more. */
  halt(): void {
    this.stopping = true;
  }

  /** After `halt`, when no pass is under way: gives back what was not started, and waits for the rest. */
  async stop(): Promise<void> {
    this.stopping = true;
    await this.release(this.queue.splice(0));
    await this.idle();
    await this.hand.close();
    await this.sessions.close();
  }

  private reasonNotToClaim(): PassEnd | null {
    if (this.stopping) return 'stopped';
    if (this.timeouts >= this.options.timeoutsPerRound) {
      this.timeouts = 0;
      this.pausedUntil = performance.now() + this.options.pauseMs;
    }
    if (performance.now() < this.pausedUntil) return 'timeouts';
    if (this.alone || (this.quieting && this.inHand > 0)) return 'working';
    return this.queue.length >= this.enough() ? 'full' : null;
  }

  /** So many waiting messages keep the places filled while the next batch is claimed. */
  private enough(): number {
    return Math.max(this.options.concurrency(), Math.ceil(this.options.batchSize / 2));
  }

  private nextLane(): number | null {
    const lanes = this.options.lanes();
    const now = performance.now();
    for (let step = 0; step < lanes.length; step++) {
      const lane = lanes[(this.turn + step) % lanes.length];
      if (lane === undefined || this.stateOf(lane).notBefore > now) continue;
      this.turn = (this.turn + step + 1) % lanes.length;
      return lane;
    }
    return null;
  }

  private async look(lane: number): Promise<ClaimedBatch | null> {
    const state = this.stateOf(lane);
    const { wakes } = this;
    this.looks++;
    if (state.idle && !(await this.parts.store.hasDue(lane, this.parts.box.paused()))) {
      this.leaveAlone(
        lane,
        wakes,
        Math.min(this.options.pauseMs, this.parts.box.resumeInMs(lane) ?? Number.POSITIVE_INFINITY),
      );
      return null;
    }
    this.justClosed.clear();
    const batch = await this.claims.claim(lane, state.from, this.inHand === 0, (id) => this.unsettled.has(id));
    this.quieting = false;
    state.idle = batch.from === null;
    state.from = batch.from ?? epoch;
    if (batch.exhausted || !this.options.continuous) {
      state.from = epoch;
      this.leaveAlone(lane, wakes, Math.min(this.options.pauseMs, batch.resumeInMs ?? Number.POSITIVE_INFINITY));
    }
    return batch;
  }

  /** What was committed after the look, since `wakes` was read, is not to wait: the next pass comes at once. */
  private leaveAlone(lane: number, wakes: number, ms: number): void {
    this.missed = this.options.continuous && wakes !== this.wakes;
    if (this.missed) return;
    this.stateOf(lane).notBefore = performance.now() + Math.max(1, ms);
  }

  private async take(taken: readonly InHand[]): Promise<void> {
    this.claimed += taken.length;
    this.alone = taken.some(({ candidate }) => isSuspect(candidate));
    const stray: InHand[] = [];
    for (const message of taken) {
      const { previous } = message.candidate;
      // What it waits for ended meanwhile, and not well: its turn has not come.
      if (previous !== null && !this.unsettled.has(previous) && !this.justClosed.has(previous)) stray.push(message);
      else {
        this.unsettled.add(message.claim.id);
        this.queue.push(message);
      }
    }
    await this.release(stray);
  }

  /** Starts messages while there are free places. */
  private start(): void {
    const free = () => Math.max(1, this.options.concurrency()) - this.jobs.size;
    if (this.stopping || this.queue.length === 0 || free() <= 0) return;
    // What is started changes nothing in whose turn it is, so that is looked for once.
    let turn = this.inTurn();
    const jobs: (readonly InHand[])[] = [];
    const taken = new Set<InHand>();
    while (turn.length > 0 && jobs.length < free()) {
      const job = this.work.together(turn);
      for (const message of job) taken.add(message);
      jobs.push(job);
      turn = job.length === 1 ? turn.slice(1) : turn.filter((message) => !taken.has(message));
    }
    this.queue.splice(0, this.queue.length, ...this.queue.filter((message) => !taken.has(message)));
    for (const job of jobs) this.launch(job);
  }

  /** Places become free many at a time, since successes are written together. */
  private startSoon(): void {
    if (this.startsSoon) return;
    this.startsSoon = true;
    // After all promises that are settled already.
    process.nextTick(() => {
      this.startsSoon = false;
      this.start();
      if (!this.stopping && this.reasonNotToClaim() === null && this.nextLookMs() === 0) this.onHungry();
    });
  }

  /** Messages that wait for nothing in hand, oldest first; one of each order unit. */
  private inTurn(): InHand[] {
    return this.queue.filter(({ candidate: { previous } }) => previous === null || !this.unsettled.has(previous));
  }

  private launch(job: readonly InHand[]): void {
    const running = this.work
      .run(job, this.until)
      .catch((error: unknown) => {
        this.onError(error);
        return { closed: [], timedOut: false };
      })
      .then(async ({ closed, timedOut }) => {
        this.timeouts = timedOut ? this.timeouts + 1 : 0;
        await this.settle(job, new Set(closed));
      })
      .catch((error: unknown) => this.onError(error))
      .finally(() => {
        this.jobs.delete(running);
        this.inWork -= job.length;
        if (this.inHand === 0) this.alone = false;
        this.startSoon();
      });
    this.jobs.add(running);
    this.inWork += job.length;
  }

  /** What waited behind a message that did not close is given back; what stepped aside for one that did comes back. */
  private async settle(job: readonly InHand[], closed: ReadonlySet<string>): Promise<void> {
    for (const { claim, candidate } of job) {
      this.hand.drop(claim.id);
      this.unsettled.delete(claim.id);
      if (!closed.has(claim.id)) {
        await this.release(this.chainBehind(claim.id));
        continue;
      }
      this.justClosed.add(claim.id);
      if (candidate.open === null || !this.parts.neighbours) continue;
      const follower = this.queue.some((other) => other.candidate.previous === claim.id);
      if (!follower) this.returns.add(candidate.open);
    }
  }

  /** The waiting messages behind one, however far; they leave the queue. */
  private chainBehind(id: string): InHand[] {
    const chain: InHand[] = [];
    const behind = new Set([id]);
    // The queue is in order, so one pass meets every link after the one before it.
    for (const message of this.queue) {
      const { previous } = message.candidate;
      if (previous === null || !behind.has(previous)) continue;
      behind.add(message.claim.id);
      chain.push(message);
    }
    const left = new Set(chain);
    this.queue.splice(0, this.queue.length, ...this.queue.filter((message) => !left.has(message)));
    return chain;
  }

  /** Never started: due again as it was, no attempt counted. */
  private async release(messages: readonly InHand[]): Promise<void> {
    for (const { permit, claim } of messages) {
      permit.giveBack();
      this.hand.drop(claim.id);
      this.unsettled.delete(claim.id);
    }
    for (const claims of byToken(messages.map(({ claim }) => claim))) {
      const [first] = claims;
      if (first)
        await this.parts.store.release(
          first.token,
          claims.map(({ id }) => id),
        );
    }
  }

  private stateOf(lane: number): LaneState {
    let state = this.lanes.get(lane);
    if (!state) {
      state = { from: epoch, notBefore: 0, idle: true };
      this.lanes.set(lane, state);
    }
    return state;
  }
}
