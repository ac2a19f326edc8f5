// Every example of docs/outbox.md, pasted into a project and run as printed on a real database; that with RabbitMQ is skipped,
// with a line that says so, where none answers.
import { fileURLToPath } from 'node:url';
import type { INestApplicationContext, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { DataSource } from 'typeorm';
import { OutboxService } from '../../../src/index.js';
import { startChild } from '../../support/child.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { codeBlocks, docProject } from '../../support/doc-examples.js';
import { outboxCounts } from '../../support/outbox-app.js';
import { createTestQueue, findRabbitmq } from '../../support/rabbitmq.js';
import { waitUntil } from '../../support/wait-until.js';

const rabbitmq = await findRabbitmq();
const blocks = codeBlocks('docs/outbox.md');
const project = docProject(blocks);
const database = await migrated(await createTestDatabase('outbox_guide'));
const queue = rabbitmq === null ? null : await createTestQueue(rabbitmq);
Object.assign(process.env, {
  DATABASE_URL: database.url,
  RABBITMQ_URL: queue?.url ?? 'amqp://127.0.0.1:1',
  SHIPPING_QUEUE: queue?.name ?? 'none',
});
const example = (name: string) => import(project.path(name));

// The page's own test runs here as one of ours.
await example('http-transport.spec.ts');

let app: INestApplicationContext | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
  await database.query('DELETE FROM outbox_message');
});
afterAll(async () => {
  project.remove();
  await queue?.drop();
  await database.drop();
});

async function start(module: Type): Promise<INestApplicationContext> {
  app = await NestFactory.createApplicationContext(module, { logger: false });
  return app;
}

test('every example has a name, and none is left out here', () => {
  expect(blocks.map(({ name }) => name)).toEqual(['payments.ts', 'rabbitmq.ts', 'http-transport.spec.ts']);
});

test('every example compiles in strict mode', async () => {
  const typescript = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url));
  const options =
    '--strict --noEmit --skipLibCheck --module nodenext --target es2022 --lib es2024 --types node,jest --experimentalDecorators --emitDecoratorMetadata';
  const compiler = startChild(typescript, {
    args: [...options.split(' '), ...blocks.flatMap(({ name }) => (name === null ? [] : [project.path(name)]))],
    cwd: project.path('.'),
  });
  const { code } = await compiler.ended;
  expect(compiler.stdout).toBe('');
  expect(code).toBe(0);
  // Several times what it takes on a machine that has nothing else to do.
}, 180_000);

test('payments.ts: the payment and its reservation, or neither', async () => {
  await database.query('CREATE TABLE shop_order (id VARCHAR(64) PRIMARY KEY, status VARCHAR(16) NOT NULL)');
  await database.query('CREATE TABLE reservation (order_id VARCHAR(64) NOT NULL)');
  await database.query("INSERT INTO shop_order VALUES ('o1', 'new')");
  const { Payments, PaymentsModule } = await example('payments.ts');
  const payments = (await start(PaymentsModule)).get(Payments);
  await payments.pay('o1');
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'it is reserved' });
  expect(await database.query('SELECT order_id FROM reservation')).toEqual([{ order_id: 'o1' }]);
  await database.query('RENAME TABLE shop_order TO no_order');
  await expect(payments.pay('o2')).rejects.toThrow();
  expect(await outboxCounts(database)).toEqual({ sent: 1 });
});

(queue === null ? test.skip : test)('rabbitmq.ts: what is routed there is in the queue', async () => {
  const { ShippingModule } = await example('rabbitmq.ts');
  const running = await start(ShippingModule);
  const outbox = running.get(OutboxService);
  await running
    .get(DataSource)
    .transaction((manager) => outbox.enqueue(manager, { topic: 'shipping.order', id: 'm1', payload: { order: 1 } }));
  await waitUntil(async () => (await outboxCounts(database)).sent === 1, { what: 'it is sent' });
  const message = await queue?.channel.get(queue.name, { noAck: true });
  expect(message && [message.properties.messageId, JSON.parse(message.content.toString())]).toEqual([
    'm1',
    { pattern: 'shipping.order', data: { order: 1 } },
  ]);
});
