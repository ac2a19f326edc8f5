// The RabbitMQ example of docs/brokers.md, pasted into a project and run as printed: what the broker delivers is stored before
// it is acknowledged, and stored once. Needs a RabbitMQ (RABBITMQ_URL); skipped, with a line that says so, where none answers.
import { createConnection } from 'mysql2/promise';
import { type Child, startChild } from '../../support/child.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { codeBlocks, docProject } from '../../support/doc-examples.js';
import { createTestQueue, findRabbitmq, type TestQueue } from '../../support/rabbitmq.js';
import { waitUntil } from '../../support/wait-until.js';

const rabbitmq = await findRabbitmq();
const project = docProject(codeBlocks('docs/brokers.md'));
const database = await migrated(await createTestDatabase('brokers'));
const instance = new URL('../../support/fixtures/broker-instance.ts', import.meta.url);

afterAll(async () => {
  project.remove();
  await database.drop();
});

const ifFound = rabbitmq === null ? describe.skip : describe;

ifFound('docs/brokers.md with RabbitMQ', () => {
  let queue: TestQueue;
  const children: Child[] = [];

  beforeEach(async () => {
    queue = await createTestQueue(rabbitmq ?? '');
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await child.kill();
    await queue.drop();
    await database.query('DELETE FROM inbox_message');
  });

  async function start(env: Record<string, string> = {}): Promise<Child> {
    const child = startChild(instance, {
      env: {
        DATABASE_URL: database.url,
        RABBITMQ_URL: queue.url,
        ORDER_QUEUE: queue.name,
        EXAMPLE: project.path('order-queue.ts'),
        ...env,
      },
    });
    children.push(child);
    await child.line('ready', 60_000);
    return child;
  }

  const order = (n: number) => ({ type: 'order.paid', eventId: `e${n}`, orderId: `o${n % 7}` });
  const keys = async () =>
    (await database.query<{ key: Buffer }>('SELECT dedup_key AS `key` FROM inbox_message ORDER BY dedup_key'))
      .map(({ key }) => key.toString())
      .sort();
  const keysUpTo = (count: number) => Array.from({ length: count }, (_, n) => `e${n}`).sort();
  /** Nothing waits and nothing is held: what a consumer holds comes back when it is gone, and the next one takes it. */
  async function allAcknowledged(): Promise<void> {
    for (let pass = 1; ; pass++) {
      const consumer = children.at(-1);
      consumer?.signal('SIGTERM');
      await consumer?.ended;
      if ((await queue.ready()) === 0) return;
      if (pass === 4) throw new Error('messages are delivered again and again');
      await start();
      await waitUntil(async () => (await queue.ready()) === 0, { what: 'everything is delivered once more' });
    }
  }

  test('order-queue.ts stores what is delivered, byte by byte, and acknowledges it', async () => {
    const bytes =
      '{"pattern":"order","data":{"type":"order.paid","eventId":"e0","orderId":"o","amount":12345678901234567890}}';
    await start();
    queue.channel.sendToQueue(queue.name, Buffer.from(bytes));
    await waitUntil(async () => (await keys()).length === 1, { what: 'the message is stored' });
    const [row] = await database.query('SELECT type, entity_key, body FROM inbox_message');
    expect(row).toEqual({ type: 'order.paid', entity_key: Buffer.from('o'), body: Buffer.from(bytes) });
    await allAcknowledged();
  });

  test('order-worker.ts is the whole application', async () => {
    const child = startChild(project.path('order-worker.ts'), {
      env: { DATABASE_URL: database.url, RABBITMQ_URL: queue.url, ORDER_QUEUE: queue.name },
    });
    children.push(child);
    queue.send('order', order(0));
    await waitUntil(async () => (await keys()).length === 1, { what: 'the message is stored', timeoutMs: 60_000 });
  });

  test('a process that is killed between commit and acknowledgement gets the message again, and stores it once', async () => {
    const first = await start({ KILL_AFTER: '1' });
    queue.send('order', order(0));
    expect((await first.ended).signal).toBe('SIGKILL');
    expect(await keys()).toEqual(['e0']);
    const second = await start();
    const stored = first.stdout.match(/stored (\d+)/)?.[1];
    await waitUntil(() => second.stdout.includes(`duplicate ${stored}\n`), { what: 'it is told the id of the first' });
    expect(await keys()).toEqual(['e0']);
    await allAcknowledged();
  });

  test('of 200 messages over two kills none is lost and none is stored twice', async () => {
    for (let n = 0; n < 200; n++) queue.send('order', order(n));
    for (const after of ['37', '80']) {
      const killed = await start({ KILL_AFTER: after }).catch(() => null);
      await (killed ?? children.at(-1))?.ended;
    }
    await start();
    await waitUntil(async () => (await keys()).length === 200, { what: 'all are stored', timeoutMs: 30_000 });
    expect(await keys()).toEqual(keysUpTo(200));
    await allAcknowledged();
  });

  test('a message that cannot be stored now is neither acknowledged nor refused, and comes again', async () => {
    const consumer = await start();
    const locker = await createConnection(database.url);
    try {
      await locker.query('LOCK TABLES inbox_message WRITE');
      queue.send('order', order(0));
      await consumer.line('refused unavailable');
      // A consumer that is gone shows who has the message.
      await consumer.kill();
      await waitUntil(async () => (await queue.ready()) === 1, { what: 'the broker has it back' });
      expect(await queue.refused()).toEqual([]);
    } finally {
      await locker.end();
    }
    await start();
    await waitUntil(async () => (await keys()).length === 1, { what: 'the message is stored' });
    await allAcknowledged();
  });

  test('a message that will never be taken is put aside, and the next ones are stored', async () => {
    await start();
    queue.send('order', { type: 'order.paid', orderId: 'o' });
    queue.send('order', order(0));
    await waitUntil(async () => (await keys()).length === 1, { what: 'the message is stored' });
    const refused = await waitUntil(
      async () => {
        const found = await queue.refused();
        return found.length > 0 && found;
      },
      { what: 'the other is refused' },
    );
    expect(refused).toEqual(['{"pattern":"order","data":{"type":"order.paid","orderId":"o"}}']);
    await allAcknowledged();
  });
});
