import type { Redis } from 'ioredis';
import { type GivenRedisClient, newInstanceId, pubSubClient } from '../../../lease/index.js';
import type { Frame } from './frame.js';
import type { PushBus } from './push-bus.js';
import { isPushResult, type PushResult } from './push-result.js';
import { RemoteAnswers } from './remote-answers.js';

/** Channels that one SUBSCRIBE names. */
const channelsPerCommand = 500;
/** Pushes of other instances in work here at most: they are frames in memory. */
const mostDeliveries = 10_000;

export interface RedisBusOptions {
  readonly redis: string | GivenRedisClient;
  /** Prefix of the channels. */
  readonly namespace: string;
  /** How long others may take to answer a push. */
  readonly answerMs: number;
  /** Pushes to the sockets of this instance. */
  readonly deliver: (receiver: string, frame: Frame) => Promise<PushResult>;
  /** Receivers with a socket here. */
  readonly members: { has(receiver: string): boolean; names(): Iterable<string> };
  /** The way is open: others may have missed sockets of this instance before. */
  readonly onOpen: () => void;
  readonly onError: (error: Error) => void;
}

/**
 * Redis publish and subscribe between the instances. Each receiver has a channel, subscribed where it has a socket, so the
 * answer to PUBLISH is the number of instances that have one: 0 is offline, and needs no state that could be wrong after
 * a crash. Each of them answers on the sender's own channel. While Redis is away nothing is known.
 */
export class RedisBus implements PushBus {
  private readonly id = newInstanceId();
  private readonly answers: RemoteAnswers;
  private isOpen = false;
  private isClosed = false;
  private deliveries = 0;
  /** A probe is on its way from this instance to itself. */
  private probing = false;

  private constructor(
    private readonly options: RedisBusOptions,
    private readonly publisher: Redis,
    private readonly subscriber: Redis,
  ) {
    this.answers = new RemoteAnswers(options.answerMs);
    subscriber.on('message', (channel: string, text: string) => this.heard(channel, text));
    subscriber.on('ready', () => void this.subscribe());
    subscriber.on('close', () => {
      this.isOpen = false;
    });
    if (subscriber.status === 'ready') void this.subscribe();
  }

  /**
   * Connects in the background.
   * @param option path of the option that names Redis
   * @throws InvalidOptionsError when a URL is given and ioredis is not installed
   */
  static async open(options: RedisBusOptions, option: string): Promise<RedisBus> {
    const { redis, onError } = options;
    const publisher = await pubSubClient(redis, onError, option);
    return new RedisBus(options, publisher, await pubSubClient(redis, onError, option));
  }

  get isUsable(): boolean {
    return this.isOpen && this.publisher.status === 'ready';
  }

  async push(receiver: string, { messageId, text }: Frame): Promise<PushResult> {
    if (!this.isUsable) return 'unknown';
    const { id, answered } = this.answers.expect();
    const head = JSON.stringify({ from: this.id, id, messageId });
    try {
      this.answers.count(id, await this.publisher.publish(this.channelOf(receiver), `${head}\n${text}`));
    } catch {
      this.answers.giveUp(id);
    }
    return answered;
  }

  async join(receiver: string): Promise<void> {
    if (this.subscriber.status !== 'ready') return;
    try {
      await this.subscriber.subscribe(this.channelOf(receiver));
    } catch {
      this.reconnect();
    }
  }

  leave(receiver: string): void {
    if (this.subscriber.status !== 'ready') return;
    this.subscriber.unsubscribe(this.channelOf(receiver)).catch(() => this.reconnect());
  }

  /** A connection may be dead without telling: what is published to this instance must arrive. */
  async check(): Promise<void> {
    if (!this.isUsable) return;
    if (this.probing) return this.reconnect();
    this.probing = true;
    await this.publisher.publish(this.ownChannel, 'probe').catch(() => {
      this.probing = false;
    });
  }

  close(): void {
    this.isClosed = true;
    this.isOpen = false;
    this.publisher.disconnect();
    this.subscriber.disconnect();
    this.answers.close();
  }

  /** After each connect: to the own channel and all receivers. One that leaves meanwhile is unsubscribed behind it. */
  private async subscribe(): Promise<void> {
    const { members, onOpen } = this.options;
    try {
      this.probing = false;
      await this.subscriber.subscribe(this.ownChannel);
      const names = [...members.names()];
      for (let at = 0; at < names.length; at += channelsPerCommand) {
        const here = names.slice(at, at + channelsPerCommand).filter((name) => members.has(name));
        if (here.length > 0) await this.subscriber.subscribe(...here.map((name) => this.channelOf(name)));
      }
      if (this.subscriber.status !== 'ready' || this.isClosed) return;
      this.isOpen = true;
      onOpen();
    } catch {
      this.reconnect();
    }
  }

  private reconnect(): void {
    this.isOpen = false;
    if (!this.isClosed) this.subscriber.disconnect(true);
  }

  private heard(channel: string, text: string): void {
    if (channel !== this.ownChannel) return void this.deliver(channel, text);
    if (text === 'probe') {
      this.probing = false;
      return;
    }
    const { id, result } = (jsonOf(text) ?? {}) as { id?: unknown; result?: unknown };
    if (typeof id === 'string' && isPushResult(result)) this.answers.add(id, result);
  }

  /** Always answers, since the sender counts. */
  private async deliver(channel: string, text: string): Promise<void> {
    const at = text.indexOf('\n');
    const { from, id, messageId } = (jsonOf(text.slice(0, at)) ?? {}) as Record<string, unknown>;
    if (typeof from !== 'string' || typeof id !== 'string' || typeof messageId !== 'string') return;
    // The sender has pushed to its own sockets itself.
    if (from === this.id) return this.answers.add(id, 'none');
    const receiver = channel.slice(this.channelOf('').length);
    let result: PushResult = 'busy';
    if (this.deliveries < mostDeliveries) {
      this.deliveries++;
      result = await this.options.deliver(receiver, { messageId, text: text.slice(at + 1) }).catch(() => 'closed');
      this.deliveries--;
    }
    // Without an answer the sender waits until its time is over.
    await this.publisher.publish(this.channelOfInstance(from), JSON.stringify({ id, result })).catch(() => undefined);
  }

  private get ownChannel(): string {
    return this.channelOfInstance(this.id);
  }

  private channelOfInstance(id: string): string {
    return `${this.options.namespace}:ws:instance:${id}`;
  }

  private channelOf(receiver: string): string {
    return `${this.options.namespace}:ws:receiver:${receiver}`;
  }
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
