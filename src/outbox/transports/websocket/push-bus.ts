import type { Frame } from './frame.js';
import type { PushResult } from './push-result.js';

/** The way to the sockets of other instances. */
export interface PushBus {
  /** False: pushes are `unknown` for now. */
  readonly isUsable: boolean;
  /** Pushes to the receiver's sockets of all other instances. Settles within a bound, never rejects. */
  push(receiver: string, frame: Frame): Promise<PushResult>;
  /** This instance has sockets of the receiver, or no more. Resolves when others know, or cannot be told now. */
  join(receiver: string): Promise<void>;
  leave(receiver: string): void;
  /** Looks whether the way is open; opens it again if not. */
  check(): Promise<void>;
  close(): void;
}

/** There are no other instances. */
export const noBus: PushBus = {
  isUsable: true,
  push: async () => 'none',
  join: async () => undefined,
  leave: () => undefined,
  check: async () => undefined,
  close: () => undefined,
};
