import type { GivenClientProxy } from './given-client.js';

/** A channel of amqplib, as far as it is needed here. */
interface Channel {
  on(event: 'return', listener: (message: { readonly properties: { readonly messageId?: unknown } }) => void): unknown;
}

/** amqp-connection-manager's channel, which comes back after a lost connection and is set up anew then. */
interface ManagedChannel {
  addSetup(setup: (channel: Channel) => Promise<void>): Promise<void>;
}

/** Returns without a confirmation to match are forgotten beyond this many. */
const mostRemembered = 10_000;

/**
 * Messages that RabbitMQ gave back because no queue is bound to take them. It confirms them all the same, but gives them
 * back before that on the same channel, so that at the confirmation it is known.
 */
export class ReturnedMessages {
  private readonly ids = new Set<string>();
  private readonly watched = new WeakSet<object>();

  /** Listens on the client's channel, before the first message goes out. @throws what connecting throws */
  async watch(client: GivenClientProxy): Promise<void> {
    await client.connect();
    const channel: unknown = Reflect.get(client, 'channel');
    if (!isManaged(channel) || this.watched.has(channel)) return;
    this.watched.add(channel);
    await channel.addSetup(async (one) => {
      one.on('return', ({ properties: { messageId } }) => this.add(messageId));
    });
  }

  /** Whether it was given back since the last time it was asked for. */
  take(id: string): boolean {
    return this.ids.delete(id);
  }

  private add(id: unknown): void {
    if (typeof id !== 'string') return;
    this.ids.add(id);
    const [oldest] = this.ids;
    if (this.ids.size > mostRemembered && oldest !== undefined) this.ids.delete(oldest);
  }
}

function isManaged(channel: unknown): channel is ManagedChannel {
  return typeof channel === 'object' && channel !== null && 'addSetup' in channel;
}
