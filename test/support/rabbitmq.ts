import { randomBytes } from 'node:crypto';
import { type Channel, type ChannelModel, connect } from 'amqplib';
import { opened } from './open-resources.js';

/** A queue that only one test file uses, and the one for what is refused from it. */
export interface TestQueue {
  readonly url: string;
  readonly name: string;
  readonly channel: Channel;
  /** Sends an event as Nest's client does. */
  send(pattern: string, data: unknown): void;
  /** Messages that wait, those that are delivered and not acknowledged not counted. */
  ready(): Promise<number>;
  /** What was refused so far, taken out of its queue. */
  refused(): Promise<string[]>;
  /** Deletes both queues. The leak check fails a file that does not. */
  drop(): Promise<void>;
}

/** `RABBITMQ_URL`, else guest on 127.0.0.1:5672. Null, and a line that says so, where no RabbitMQ answers. */
export async function findRabbitmq(): Promise<string | null> {
  const url = process.env.RABBITMQ_URL || 'amqp://guest:guest@127.0.0.1:5672';
  try {
    await (await connect(url, { timeout: 3_000 })).close();
    return url;
  } catch (error) {
    const where = new URL(url).host;
    console.warn(`Skipped: no RabbitMQ answers at ${where} (${String(error)}). Start one, or set RABBITMQ_URL.`);
    return null;
  }
}

/** Declares the queue as the example of docs/brokers.md does. */
export async function createTestQueue(url: string): Promise<TestQueue> {
  const name = `mailroom_test_${randomBytes(5).toString('hex')}`;
  const refusedName = `${name}.refused`;
  const connection: ChannelModel = await connect(url);
  const channel = await connection.createChannel();
  await channel.assertExchange(refusedName, 'fanout');
  await channel.assertQueue(refusedName);
  await channel.bindQueue(refusedName, refusedName, '');
  await channel.assertQueue(name, {
    durable: true,
    arguments: { 'x-queue-type': 'quorum', 'x-dead-letter-exchange': refusedName },
  });
  const drop = async () => {
    await channel.deleteQueue(name);
    await channel.deleteQueue(refusedName);
    await channel.deleteExchange(refusedName);
    await connection.close();
    closed();
  };
  const closed = opened({ what: `queue ${name}`, close: drop });
  return {
    url,
    name,
    channel,
    send(pattern, data) {
      channel.sendToQueue(name, Buffer.from(JSON.stringify({ pattern, data })), { persistent: true });
    },
    ready: async () => (await channel.checkQueue(name)).messageCount,
    async refused() {
      const found: string[] = [];
      for (;;) {
        const message = await channel.get(refusedName, { noAck: true });
        if (!message) return found;
        found.push(message.content.toString());
      }
    },
    drop,
  };
}
