// The example of docs/websocket.md, pasted into a project and run as printed, and the transport against the contract.
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { INestApplication } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { WsAdapter } from '@nestjs/platform-ws';
import { WebSocketServer } from 'ws';
import { WebSocketReceivers, websocketTransport } from '../../../src/index.js';
import { transportContract } from '../../../src/testing/index.js';
import { startChild } from '../../support/child.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { codeBlocks, docProject } from '../../support/doc-examples.js';
import { outboxCounts } from '../../support/outbox-app.js';
import { testRedisUrl } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';
import { wsClient } from '../../support/websocket-app.js';

const blocks = codeBlocks('docs/websocket.md');
const project = docProject(blocks);
const database = await migrated(await createTestDatabase('websocket_guide'));
Object.assign(process.env, { DATABASE_URL: database.url, REDIS_URL: testRedisUrl() });

let app: INestApplication | undefined;
afterAll(async () => {
  await app?.close();
  project.remove();
  await database.drop();
});

test('every example has a name, and none is left out here', () => {
  expect(blocks.map(({ name }) => name)).toEqual(['chat.ts']);
});

test('chat.ts compiles in strict mode', async () => {
  const typescript = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url));
  const options =
    '--strict --noEmit --skipLibCheck --module nodenext --target es2022 --lib es2024 --types node --experimentalDecorators --emitDecoratorMetadata';
  const compiler = startChild(typescript, {
    args: [...options.split(' '), project.path('chat.ts')],
    cwd: project.path('.'),
  });
  const { code } = await compiler.ended;
  expect(compiler.stdout).toBe('');
  expect(code).toBe(0);
  // Several times what it takes on a machine that has nothing else to do.
}, 180_000);

test('chat.ts: what was said to somebody offline arrives when they connect, and what is said then arrives too', async () => {
  await database.query('CREATE TABLE chat_message (user_id VARCHAR(64) NOT NULL, text TEXT NOT NULL)');
  const { Chat, ChatModule } = await import(project.path('chat.ts'));
  app = await NestFactory.create(ChatModule, { logger: false });
  app.useWebSocketAdapter(new WsAdapter(app));
  await app.listen(0, '127.0.0.1');
  const chat = app.get(Chat);
  await chat.say('ben', 'hello');
  await waitUntil(async () => (await outboxCounts(database)).parked === 1, { what: 'it is parked' });
  const client = await wsClient(app.getHttpServer().address() as AddressInfo, 'ben');
  await waitUntil(() => client.frames.length === 1, { what: 'it arrives' });
  await chat.say('ben', 'are you there?');
  await waitUntil(async () => (await outboxCounts(database)).sent === 2, { what: 'both are sent' });
  expect(client.frames.map(({ event, payload }) => [event, payload])).toEqual([
    ['chat.message', { text: 'hello' }],
    ['chat.message', { text: 'are you there?' }],
  ]);
  await client.close();
});

describe.each([1, 50])('the contract, %d at a time', (batchSize) => {
  const open = async () => {
    const receivers = new WebSocketReceivers();
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' });
    await new Promise((resolve) => server.once('listening', resolve));
    const connecting: Promise<void>[] = [];
    const transport = websocketTransport({ receivers, batchSize });
    const start = transport.open?.bind(transport);
    server.on('connection', (socket) => connecting.push(receivers.connect('r1', socket)));
    const clients: Awaited<ReturnType<typeof wsClient>>[] = [];
    const { port } = server.address() as AddressInfo;
    transport.open = async (outbox) => {
      await start?.(outbox);
      clients.push(await wsClient({ port }, 'r1'));
      await Promise.all(connecting);
    };
    return {
      transport,
      receiver: 'r1',
      arrived: () => clients.flatMap(({ frames }) => frames.map(({ messageId }) => messageId)),
      cutOff: async () => {
        for (const client of clients) await client.close();
      },
      close: async () => {
        for (const client of clients) await client.close();
        await new Promise((resolve) => server.close(resolve));
      },
    };
  };
  for (const { name, run } of transportContract(open)) test(name, run);
});
