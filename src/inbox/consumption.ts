import type { PassEnd, RoundEnd } from '../delivery/index.js';

/** How the messages of the lanes are worked through: in order with a lease for each lane, or competing. */
export interface Consumption {
  start(): void;
  /** A message was stored in the lane. */
  wake(lane: number): void;
  wakeAll(): void;
  /** One round of every lane, now. */
  runOnce(): Promise<(RoundEnd | PassEnd)[]>;
  /** Lanes beyond those configured that hold messages. */
  adopt(lanes: readonly number[]): Promise<void>;
  /** What recovery has to do beside giving back orphans. */
  tidy(): Promise<void>;
  /** Milliseconds since the slowest loop last turned. */
  ageMs(): number;
  /** Claims nothing more, lets the messages in work finish, and gives them up after `graceMs`. */
  stop(graceMs: number): Promise<void>;
}
