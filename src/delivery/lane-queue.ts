import type { MailroomEvents } from '../observability/index.js';
import type { Candidate } from './candidate.js';
import type { ClosedOffKinds } from './closed-off-kinds.js';
import type { Crowds } from './crowds.js';
import type { EntityOrderStore } from './entity-order.store.js';
import type { LaneStore } from './lane.store.js';
import type { ClosedOff, LaneBox, LaneHandler, Permit } from './lane-handler.js';
import { LaneTurns } from './lane-turns.js';
import { type UnknownTypes, unknownReason } from './unknown-types.js';

/** Messages read ahead in one query. */
const readAheadSize = 50;
/** A round reads ahead at most this often: enough to move 500,000 rows aside, and no way to spin. */
const mostReads = 1_000;
const nobody: ReadonlySet<string> = new Set();
const epoch = '1970-01-01 00:00:00.000';

export interface Runnable {
  readonly candidate: Candidate;
  readonly handler: LaneHandler;
  readonly permit: Permit;
}

/** A kind at its limit, of which every due message is known to this round: it is waited for instead of put off. */
interface WaitingKind {
  readonly source: string;
  readonly type: string;
  readonly closedOff: ClosedOff;
  readonly readyAt: number;
}

/**
 * The due messages of a lane during one round, in order. What cannot be run now is moved out of the way here: followers
 * of a waiting message step aside, messages without a handler, behind an open breaker or at a limit are put off.
 */
export class LaneQueue {
  private ahead: Candidate[] = [];
  private from = epoch;
  private exhausted = false;
  private reads = 0;
  /** Messages that this round closed: their followers' turn has come. */
  private readonly closed = new Set<string>();
  /** Entities that this round stepped followers aside for. */
  private readonly steppedAside = new Set<string>();
  private readonly waiting = new Map<string, WaitingKind>();
  /** Where a reorder window decides whose turn it is. */
  readonly turns: LaneTurns;
  /** Kinds whose retries need not make room, since nothing else was due when the queue was read. */
  private readonly retriesTried = new Set<string>();
  yieldLane = false;

  constructor(
    private readonly lane: number,
    private readonly store: LaneStore,
    private readonly order: EntityOrderStore,
    private readonly box: LaneBox,
    private readonly unknown: UnknownTypes,
    private readonly closedOff: ClosedOffKinds,
    private readonly crowds: Crowds,
    private readonly events: MailroomEvents,
  ) {
    this.turns = new LaneTurns(order.reorder);
  }

  /**
   * The next message whose turn it is; null when nothing is due. It is not claimed yet.
   * @param running the message in work: its follower counts as next in turn, to be claimed together with its success
   */
  async next(running: Candidate | null): Promise<Runnable | null> {
    for (;;) {
      const candidate = this.ahead.shift() ?? (await this.refill(running));
      if (!candidate) return null;
      if (running && this.turns.decides(candidate)) {
        // Its turn is decided when nothing of its entity is in work.
        this.ahead.unshift(candidate);
        return null;
      }
      const runnable = await this.examine(candidate, running ? new Set([running.id]) : nobody);
      if (runnable) return runnable;
    }
  }

  /**
   * The next message if it was read already, is of the same kind as `first` and `fits`; null otherwise. The messages of
   * `batch` are in work, so their followers are in turn. Whether the kind may be handled now is asked for each call, not
   * here: putting the kind off would take away those of the batch that are not claimed yet.
   */
  async nextOfKind(
    { source, type }: Candidate,
    batch: readonly { readonly candidate: Candidate }[],
    fits: (candidate: Candidate) => Promise<boolean>,
  ): Promise<Candidate | null> {
    const inWork = new Set(batch.map(({ candidate }) => candidate.id));
    for (;;) {
      const [candidate] = this.ahead;
      if (!candidate || candidate.source !== source || candidate.type !== type || !(await fits(candidate))) return null;
      this.ahead.shift();
      if (await this.isInTurn(candidate, inWork)) return candidate;
    }
  }

  /** As `nextOfKind`, after reading on if need be. 'other': something else is next; null: nothing is due. */
  async refillOfKind(
    first: Candidate,
    batch: readonly { readonly candidate: Candidate }[],
    fits: (candidate: Candidate) => Promise<boolean>,
  ): Promise<Candidate | 'other' | null> {
    if (this.ahead.length === 0) {
      const candidate = await this.refill(null);
      if (!candidate) return null;
      this.ahead.unshift(candidate);
    }
    return (await this.nextOfKind(first, batch, fits)) ?? (this.ahead.length > 0 ? 'other' : null);
  }

  /** Puts a message back at the head: it was looked up as the next one but was not claimed. */
  putBack({ candidate, permit }: Runnable): void {
    permit.giveBack();
    this.ahead.unshift(candidate);
  }

  /**
   * After `next` found nothing: milliseconds until a kind at its limit may go on; null when there is none. What would
   * have to be waited for longer than `longestMs` is put off.
   */
  async pauseMs(longestMs: number): Promise<number | null> {
    const now = performance.now();
    for (const [key, { source, type, closedOff, readyAt }] of this.waiting) {
      if (readyAt - now < longestMs) continue;
      this.waiting.delete(key);
      await this.putOff(source, type, closedOff);
    }
    const readyAt = [...this.waiting.values()].map((kind) => kind.readyAt - performance.now());
    const returning = this.closedOff.resumeInMs(this.lane);
    if (returning !== null) readyAt.push(returning);
    return readyAt.length > 0 ? Math.max(1, Math.min(...readyAt)) : null;
  }

  /** After a pause: what is due is looked up anew. */
  rewind(): void {
    this.ahead = [];
    this.waiting.clear();
    this.from = epoch;
    this.exhausted = false;
  }

  /** The message does not hold back its entity any more. */
  async close(candidate: Candidate): Promise<void> {
    this.closed.add(candidate.id);
    if (candidate.open === null) return;
    if (this.turns.decides(candidate)) {
      if (await this.turns.close(candidate)) this.readAnew();
      return;
    }
    const follower = this.ahead.some((other) => other.open === candidate.open && other.previous === candidate.id);
    if (!follower && (candidate.next_status === 'held' || this.steppedAside.has(candidate.open))) {
      await this.order.comeBack(candidate.open);
      // Those that come back keep their due time, which lies before what was read already.
      this.from = epoch;
      this.exhausted = false;
    }
  }

  private async refill(running: Candidate | null): Promise<Candidate | undefined> {
    if (this.exhausted || ++this.reads > mostReads) return undefined;
    this.retriesTried.clear();
    const rows = await this.store.readAhead(this.lane, readAheadSize, this.from, this.box.paused(), this.crowds.list());
    this.exhausted = rows.length < readAheadSize;
    this.from = rows[0]?.due ?? this.from;
    // The running message was claimed after it was read, so it cannot be among them; the check costs nothing.
    this.ahead = rows.filter((row) => row.id !== running?.id);
    return this.ahead.shift();
  }

  private async examine(candidate: Candidate, inWork: ReadonlySet<string>): Promise<Runnable | null> {
    const readiness = this.box.readiness(candidate.source, candidate.type);
    switch (readiness.kind) {
      case 'unknown':
        await this.setAside(candidate);
        return null;
      case 'paused':
        // Read before it was paused; what is read from now on leaves the kind out.
        this.drop((other) => other.source === candidate.source && other.type === candidate.type);
        return null;
      case 'closed-off':
        await this.closeOff(candidate, readiness);
        return null;
      case 'ready':
        if (!(await this.isInTurn(candidate, inWork))) return null;
        if (this.makesRoom(candidate)) {
          await this.makeRoom(candidate);
          return null;
        }
        return this.permitted(candidate);
    }
  }

  /** Looking for its turn may have taken time, and a permit is for this moment. */
  private permitted(candidate: Candidate): Runnable | null {
    const readiness = this.box.readiness(candidate.source, candidate.type);
    if (readiness.kind === 'ready') return { candidate, handler: readiness.handler, permit: readiness.permit() };
    this.ahead.unshift(candidate);
    return null;
  }

  private makesRoom({ source, type, attempts }: Candidate): boolean {
    return Number(attempts) > 0 && this.box.isLimited(source) && !this.retriesTried.has(`${source}\0${type}`);
  }

  /** Retries of a limited source are put off, unless nothing else is due: then they are handled after all. */
  private async makeRoom(candidate: Candidate): Promise<void> {
    const { source, type } = candidate;
    const count = await this.closedOff.putOffRetries(this.lane, source, type);
    if (count > 0) {
      this.events.emit({ name: 'put-off', source, type, count, reason: 'its source is limited' });
      this.drop((other) => other.source === source && other.type === type && Number(other.attempts) > 0);
    } else {
      this.retriesTried.add(`${source}\0${type}`);
      this.ahead.unshift(candidate);
    }
  }

  /** False: it is out of the way now. The messages `inWork` count as finished. */
  private async isInTurn(candidate: Candidate, inWork: ReadonlySet<string>): Promise<boolean> {
    const { open, previous } = candidate;
    if (this.turns.decides(candidate)) {
      const answer = await this.turns.ask(candidate, inWork);
      if (answer === 'aside') this.drop((other) => other.open === open);
      if (answer === 'again') this.readAnew();
      return answer === 'now';
    }
    if (open === null || previous === null || inWork.has(previous) || this.closed.has(previous)) return true;
    this.steppedAside.add(open);
    this.crowds.followUnit(open, candidate.id, await this.order.stepAside(open, candidate.id));
    this.drop((other) => other.open === open);
    return false;
  }

  /** Messages came back into the queue, due before what was read already. */
  private readAnew(): void {
    this.ahead = [];
    this.from = epoch;
    this.exhausted = false;
  }

  private async setAside({ source, type }: Candidate): Promise<void> {
    const count = await this.unknown.meet(this.lane, source, type);
    this.yieldLane = true;
    if (count > 0) this.events.emit({ name: 'put-off', source, type, count, reason: unknownReason });
    this.drop((other) => other.source === source && other.type === type);
    if (count === 0) this.exhausted = true;
  }

  private async closeOff({ source, type }: Candidate, closedOff: ClosedOff): Promise<void> {
    this.drop((other) => other.source === source && other.type === type);
    if (closedOff.pace && this.exhausted) {
      const readyAt = performance.now() + closedOff.retryInMs;
      this.waiting.set(`${source}\0${type}`, { source, type, closedOff, readyAt });
    } else {
      await this.putOff(source, type, closedOff);
    }
  }

  private async putOff(source: string, type: string, closedOff: ClosedOff): Promise<void> {
    const count = await this.closedOff.putOff(this.lane, source, type, closedOff);
    if (count > 0) this.events.emit({ name: 'put-off', source, type, count, reason: closedOff.reason });
    // Somebody else moved them: reading on would find the same again.
    else this.exhausted = true;
  }

  /** Rows that were moved in the database must not be run from memory. */
  private drop(moved: (candidate: Candidate) => boolean): void {
    this.ahead = this.ahead.filter((candidate) => !moved(candidate));
  }
}
