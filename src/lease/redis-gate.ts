import type { Cluster, Redis } from 'ioredis';
import Redlock from 'redlock';
import type { Gate, GatePass, GateRenewal } from './gate.js';
import { type GivenRedisClient, leaseClient } from './redis-client.js';

export interface RedisGateOptions {
  readonly redis: readonly (string | GivenRedisClient)[];
  /** Prefix of the keys; two applications may share one Redis. */
  readonly namespace: string;
  readonly onError: (error: Error) => void;
}

/**
 * redlock as a gate: zero retries, and "not available" is a value.
 *
 * Two redlock instances, because a failed `extend` of redlock 4 releases the lock on every server; the one for extending
 * has an unlock script that does nothing, so a renewal that did not get through leaves the key to its time.
 */
export class RedisGate implements Gate {
  private readonly locker: Redlock;
  private readonly extender: Redlock;
  private clientErrors = 0;

  private constructor(
    private readonly clients: readonly (Redis | Cluster)[],
    private readonly namespace: string,
  ) {
    // redlock's types ask for a client with callbacks of an older ioredis; at run time it calls evalsha and eval only.
    const compatible = clients as unknown as Redlock.CompatibleRedisClient[];
    const settings = { retryCount: 0, retryDelay: 0, retryJitter: 0 };
    this.locker = new Redlock(compatible, settings);
    this.extender = new Redlock(compatible, { ...settings, unlockScript: () => 'return #KEYS' } as Redlock.Options);
    for (const redlock of [this.locker, this.extender]) redlock.on('clientError', () => this.clientErrors++);
  }

  /** Connects in the background: until then nobody is let in. */
  static async open({ redis, namespace, onError }: RedisGateOptions): Promise<RedisGate> {
    return new RedisGate(await Promise.all(redis.map((given) => leaseClient(given, onError))), namespace);
  }

  async enter(name: string, ttlMs: number): Promise<GatePass | null> {
    if (!this.isAvailable()) return null;
    try {
      const lock = await this.locker.lock(`${this.namespace}:lease:${name}`, ttlMs);
      return { renew: (ms) => this.renew(lock, ms), leave: () => this.leave(lock) };
    } catch {
      return null;
    }
  }

  isAvailable(): boolean {
    const ready = this.clients.filter((client) => client.status === 'ready').length;
    return ready > this.clients.length / 2;
  }

  /** A server that became a replica, or stands still, is connected and keeps no lease: only a write tells. */
  async probe(): Promise<boolean> {
    const key = `${this.namespace}:lease-probe`;
    const answers = await Promise.allSettled(this.clients.map((client) => client.set(key, '1', 'PX', 1_000)));
    return answers.filter(({ status }) => status === 'fulfilled').length > this.clients.length / 2;
  }

  async close(): Promise<void> {
    for (const client of this.clients) client.disconnect();
  }

  /** A refusal without a client error means that the key is gone or another's: it is never made again here. */
  private async renew(lock: Redlock.Lock, ttlMs: number): Promise<GateRenewal> {
    const errorsBefore = this.clientErrors;
    try {
      await this.extender.extend(lock, ttlMs);
      return 'renewed';
    } catch {
      return this.clientErrors > errorsBefore || !this.isAvailable() ? 'unavailable' : 'lost';
    }
  }

  private async leave(lock: Redlock.Lock): Promise<void> {
    try {
      await this.locker.unlock(lock);
    } catch {
      // It had run out, or Redis is away: either way the key ends by itself.
    }
  }
}
