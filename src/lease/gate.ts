/**
 * What stands before the lease row, so that instances which cannot have a lane find out without asking the database.
 * It is no authority: when it is wrong, the row still decides.
 */
export interface Gate {
  /** `null`: another instance is in, or the gate itself cannot be asked. */
  enter(name: string, ttlMs: number): Promise<GatePass | null>;
  /** False while the gate cannot be asked at all. */
  isAvailable(): boolean;
  /** Asks with a write, as a lease is one. Never rejects. */
  probe(): Promise<boolean>;
  close(): Promise<void>;
}

export type GateRenewal = 'renewed' | 'lost' | 'unavailable';

export interface GatePass {
  renew(ttlMs: number): Promise<GateRenewal>;
  /** Never throws. */
  leave(): Promise<void>;
}

/** `lease.backend: 'database'`: everybody is let through to the row. */
export const openGate: Gate = {
  enter: async () => ({ renew: async () => 'renewed', leave: async () => undefined }),
  isAvailable: () => true,
  probe: async () => true,
  close: async () => undefined,
};
