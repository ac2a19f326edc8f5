import { Logger } from '@nestjs/common';
import { InvalidOptionsError } from '../../../errors/invalid-options.error.js';
import { MailroomLogger } from '../../../observability/logging/mailroom-logger.js';
import { FixedDelayLoop } from '../../../schedule/index.js';
import type { OutboxMessage } from '../../outbox-message.js';
import type { SendResult, Transport, TransportOutbox } from '../transport.js';
import { type Frame, frameOf } from './frame.js';
import { noBus, type PushBus } from './push-bus.js';
import { firstAck, type PushResult } from './push-result.js';
import type { ReceiverSocket } from './receiver-socket.js';
import { RedisBus } from './redis-bus.js';
import { SocketTable } from './socket-table.js';
import { WakeQueue } from './wake-queue.js';
import type { SocketOwner } from './web-socket-receivers.js';
import {
  optionsPath,
  type ResolvedWebSocketOptions,
  resolveWebSocketOptions,
  type WebSocketTransportOptions,
} from './websocket-options.js';

/** How much longer than a client others may take: the way there and back. */
const answerSlackMs = 500;
/** What remains of sendTimeout beside ackTimeout at least. */
const sendSlackMs = 1_000;
/** A message that only an instance with its receiver's socket can send, while Redis is away, is tried again after this. */
const unknownRecheckMs = 5_000;
/** Receivers to wake when Redis is back; more wait for that time. */
const mostUnknown = 10_000;

/**
 * Pushes messages to their receiver's sockets on any instance and waits for the client's acknowledgement. See the options
 * for what is bounded, and the folder's index for what each result means.
 * @throws InvalidOptionsError when the options are wrong
 */
export function websocketTransport(options: WebSocketTransportOptions): Transport {
  return new WebSocketTransport(resolveWebSocketOptions(options));
}

class WebSocketTransport implements Transport, SocketOwner {
  readonly name: string;
  readonly batchSize: number;
  private readonly logger = new MailroomLogger('WebSocketTransport');
  private readonly sockets: SocketTable;
  private bus: PushBus = noBus;
  private wakes: WakeQueue | undefined;
  /** Parked by this instance because Redis could not be asked. */
  private readonly unknown = new Set<string>();
  private readonly loop: FixedDelayLoop;

  constructor(private readonly options: ResolvedWebSocketOptions) {
    this.name = options.name;
    this.batchSize = options.batchSize;
    const limits = { ...options, ackTimeoutMs: options.ackTimeout };
    this.sockets = new SocketTable(limits, (receiver) => this.bus.leave(receiver));
    this.loop = new FixedDelayLoop({
      name: `mailroom:outbox:${options.name}`,
      delayMs: options.heartbeat,
      passDeadlineMs: 10_000,
      pass: () => this.tend(),
      onError: (error) => this.logger.error({ msg: 'looking at the sockets failed', error: (error as Error).message }),
    });
  }

  async open({ sendTimeoutMs, database, wakeReceiver }: TransportOutbox): Promise<void> {
    const { receivers, ackTimeout, redis, namespace = database } = this.options;
    if (ackTimeout + sendSlackMs > sendTimeoutMs)
      throw new InvalidOptionsError(
        `${optionsPath}.ackTimeout`,
        ackTimeout,
        `write at most ${sendTimeoutMs - sendSlackMs}: outbox.sendTimeout (${sendTimeoutMs} ms) less ${sendSlackMs} ms`,
      );
    const wakes = new WakeQueue(wakeReceiver, quietly(this.logger, 'receivers that connected could not be woken'));
    this.wakes = wakes;
    if (redis !== undefined)
      this.bus = await RedisBus.open(
        {
          redis,
          namespace,
          answerMs: ackTimeout + answerSlackMs,
          deliver: (receiver, frame) => this.sockets.push(receiver, frame),
          members: this.sockets,
          onOpen: () => this.wakeAll(),
          onError: quietly(this.logger, 'Redis is not available; only sockets of this instance are served'),
        },
        `${optionsPath}.redis`,
      );
    if (!receivers.attach(this))
      throw new InvalidOptionsError(
        `${optionsPath}.receivers`,
        receivers,
        'another transport uses these receivers already: give each its own',
      );
    this.loop.start();
  }

  send(messages: readonly OutboxMessage[]): Promise<readonly SendResult[]> {
    return Promise.all(messages.map((message) => this.sendOne(message)));
  }

  async connected(receiver: string, key: object, socket: ReceiverSocket): Promise<void> {
    if (!this.sockets.add(receiver, key, socket)) return;
    // First others must find the socket: what they park before that is woken after it.
    await this.bus.join(receiver);
    await this.wakes?.add(receiver);
  }

  disconnected(key: object): void {
    this.sockets.remove(key);
  }

  async close(): Promise<void> {
    this.options.receivers.detach(this);
    this.wakes?.close();
    await this.loop.stop();
    this.sockets.closeAll();
    this.bus.close();
  }

  private async sendOne(message: OutboxMessage): Promise<SendResult> {
    const { receiver } = message;
    if (receiver === null)
      return dead('no-receiver', 'it was enqueued without a receiver, so there is no socket to push it to');
    let frame: Frame;
    try {
      frame = frameOf(message);
    } catch {
      return dead('not-json', 'its payload is not JSON, and a frame is');
    }
    const push = await firstAck([this.sockets.push(receiver, frame), this.bus.push(receiver, frame)]);
    if (push === 'unknown' && this.unknown.size < mostUnknown) this.unknown.add(receiver);
    return resultOf(push);
  }

  private async tend(): Promise<void> {
    this.sockets.checkLife();
    this.wakes?.again((receiver) => this.sockets.has(receiver));
    await this.bus.check();
    if (this.bus.isUsable) this.wakeUnknown();
  }

  private wakeUnknown(): void {
    for (const receiver of this.unknown) void this.wakes?.add(receiver);
    this.unknown.clear();
  }

  /** While Redis was away others parked messages for sockets of this instance. */
  private wakeAll(): void {
    for (const receiver of this.sockets.names()) void this.wakes?.add(receiver);
  }
}

function resultOf(push: PushResult): SendResult {
  switch (push) {
    case 'acked':
      return { status: 'sent' };
    case 'none':
      return { status: 'offline' };
    case 'unknown':
      return { status: 'offline', recheckMs: unknownRecheckMs };
    case 'closed':
      // The next attempt finds out whether it is offline. Counted, so that a message that ends its client ends too.
      return retry('socket-closed', 'the socket closed before the client acknowledged the message', 0);
    case 'unanswered':
      return retry('unanswered', 'the client did not acknowledge the message in time; its socket was closed');
    case 'busy':
      return retry('slow-client', 'the client leaves too much unanswered');
  }
}

function retry(code: string, words: string, delayMs?: number): SendResult {
  const error = Object.assign(new Error(words), { code });
  return { status: 'retry', error, fault: 'receiver', ...(delayMs === undefined ? {} : { delayMs }) };
}

function dead(code: string, words: string): SendResult {
  return { status: 'dead', error: Object.assign(new Error(words), { code }) };
}

/** What repeats while a server is away is told once each half minute. */
function quietly(logger: Logger, msg: string): (error: Error) => void {
  let lastAt = Number.NEGATIVE_INFINITY;
  return (error) => {
    if (performance.now() - lastAt < 30_000) return;
    lastAt = performance.now();
    logger.warn({ msg, error: error.message });
  };
}
