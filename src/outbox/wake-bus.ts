import type { Redis } from 'ioredis';
import { type GivenRedisClient, pubSubClient } from '../lease/index.js';

export interface WakeBusOptions {
  readonly redis: string | GivenRedisClient;
  /** Prefix of the channel. */
  readonly namespace: string;
  /** Null: this instance only tells others. */
  readonly onWake: (() => void) | null;
  /** Redis is away: nothing is lost, the poll finds what was committed. */
  readonly onError: (error: Error) => void;
}

/**
 * Tells the relays of other instances that something was committed, by Redis publish and subscribe. It fails open: what is
 * told while Redis is away, or while a listener connects, is not told again.
 */
export class WakeBus {
  private publisher: Redis | undefined;
  private subscriber: Redis | undefined;
  private telling = false;
  private more = false;
  private closed = false;

  constructor(private readonly options: WakeBusOptions) {}

  /**
   * Connects in the background.
   * @throws InvalidOptionsError when a URL is given and ioredis is not installed
   */
  async open(): Promise<void> {
    const { redis, onError, onWake } = this.options;
    this.publisher = await pubSubClient(redis, onError, 'outbox.wake.redis');
    if (!onWake) return;
    const subscriber = await pubSubClient(redis, onError, 'outbox.wake.redis');
    this.subscriber = subscriber;
    subscriber.on('message', onWake);
    subscriber.on('ready', () => void this.listen(subscriber, onWake));
    if (subscriber.status === 'ready') void this.listen(subscriber, onWake);
  }

  /** One message is on its way at a time: commits in the meantime share the next one. Never throws. */
  tell(): void {
    this.more = true;
    if (!this.telling && !this.closed) void this.publish();
  }

  close(): void {
    this.closed = true;
    this.publisher?.disconnect();
    this.subscriber?.disconnect();
  }

  private async publish(): Promise<void> {
    this.telling = true;
    while (this.more && !this.closed) {
      this.more = false;
      // Errors are told by the client's own event.
      await this.publisher?.publish(this.channel, '1').catch(() => undefined);
    }
    this.telling = false;
  }

  /** After each connect. What was told before is made good by one look. */
  private async listen(subscriber: Redis, onWake: () => void): Promise<void> {
    try {
      await subscriber.subscribe(this.channel);
      onWake();
    } catch {
      if (!this.closed) subscriber.disconnect(true);
    }
  }

  private get channel(): string {
    return `${this.options.namespace}:outbox:wake`;
  }
}
