import { randomBytes } from 'node:crypto';
import { Queue, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { waitUntil } from '../../support/wait-until.js';
import { Steady } from '../harness/steady.js';
import { Calls, type Peer } from './peer.js';

const concurrency = 50;
/** Jobs added in one round trip. */
const chunk = 1_000;

/** BullMQ on the Redis of `url`; null when it does not answer. */
export async function bullmq(url: string): Promise<Peer | null> {
  const redis = new Redis(url, { lazyConnect: true, retryStrategy: () => null });
  redis.on('error', () => undefined);
  const persistence = await redis
    .connect()
    .then(() => redis.info('persistence'))
    .catch(() => null);
  redis.disconnect();
  if (persistence === null) return null;
  const durable = persistence.includes('aof_enabled:1');
  return {
    name: 'BullMQ',
    setUp: `concurrency ${concurrency}, finished jobs removed, Redis ${durable ? 'with an append-only file' : 'keeps nothing on disk'}`,
    drain: (messages, payload) => drain(url, messages, payload),
  };
}

async function drain(url: string, messages: number, payload: unknown) {
  const name = `mailroom-bench-${randomBytes(4).toString('hex')}`;
  const { hostname: host, port, username, password } = new URL(url);
  const connection = { host, port: Number(port || 6379), username, password, maxRetriesPerRequest: null };
  const queue = new Queue(name, { connection });
  const steady = new Steady(messages);
  const calls = new Calls();
  const worker = new Worker(name, async ({ data }) => calls.note(data.n), {
    connection,
    concurrency,
    autorun: false,
    removeOnComplete: { count: 0 },
  });
  worker.on('completed', () => steady.done());
  worker.on('error', () => undefined);
  try {
    for (let done = 0; done < messages; done += chunk) {
      const jobs = Array.from({ length: Math.min(chunk, messages - done) }, (_, n) => ({
        name: 'order.paid',
        data: { n: done + n, payload },
      }));
      await queue.addBulk(jobs);
    }
    void worker.run();
    await waitUntil(() => steady.count >= messages, { what: 'BullMQ is done', timeoutMs: 300_000, intervalMs: 20 });
    return { ...steady.pace(), ...calls.wrong(messages) };
  } finally {
    await worker.close();
    await queue.obliterate({ force: true });
    await queue.close();
  }
}
