// Messages through Nest's clients: what each has to have confirmed before a message counts as sent. TCP and Redis always;
// RabbitMQ (RABBITMQ_URL) is skipped, with a line that says so, where none answers.
import { Controller, type INestMicroservice } from '@nestjs/common';
import {
  type ClientProxy,
  ClientProxyFactory,
  EventPattern,
  Transport as Kind,
  MessagePattern,
  type MicroserviceOptions,
  Payload,
} from '@nestjs/microservices';
import { Test } from '@nestjs/testing';
import { clientProxyTransport, InvalidOptionsError } from '../../../src/index.js';
import { type ContractSubject, sampleMessage, transportContract } from '../../../src/testing/index.js';
import { type Child, startChild } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { notingTransport, type OutboxApp, outboxCounts, startOutboxApp } from '../../support/outbox-app.js';
import { createTestQueue, findRabbitmq, type TestQueue } from '../../support/rabbitmq.js';
import { connectTestRedis, type TestRedis } from '../../support/redis.js';
import { waitUntil } from '../../support/wait-until.js';

const rabbitmq = await findRabbitmq();
const ifFound = rabbitmq === null ? describe.skip : describe;
const signal = new AbortController().signal;

let redis: TestRedis;
beforeAll(async () => {
  redis = await connectTestRedis('client_proxy');
});
afterAll(() => redis.drop());

/** A service at the other side, whose handlers note the ids that they get. */
async function startService(options: MicroserviceOptions, ids: string[]): Promise<INestMicroservice> {
  @Controller()
  class Receiver {
    @MessagePattern('sample')
    answer(@Payload() { id }: { id: string }): { ok: true } {
      ids.push(id);
      return { ok: true };
    }

    @MessagePattern('refused')
    refuse(): never {
      throw new Error('not here');
    }

    @EventPattern('event')
    note(@Payload() { id }: { id: string }): void {
      ids.push(id);
    }
  }
  const module = await Test.createTestingModule({ controllers: [Receiver] }).compile();
  const service = module.createNestMicroservice<MicroserviceOptions>({ ...options, logger: false });
  await service.listen();
  return service;
}

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net');
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address ? address.port : 0;
}

/** Waits for the answer of a @MessagePattern, over TCP. */
async function tcpSubject(): Promise<ContractSubject & { readonly client: ClientProxy }> {
  const ids: string[] = [];
  const options = { host: '127.0.0.1', port: await freePort() };
  const service = await startService({ transport: Kind.TCP, options }, ids);
  const client = ClientProxyFactory.create({ transport: Kind.TCP, options });
  return {
    client,
    transport: clientProxyTransport(client, { confirm: 'reply' }),
    arrived: () => ids,
    cutOff: () => service.close(),
    async close() {
      client.close();
      await service.close();
    },
  };
}

describe('over TCP, with the answer of the other side', () => {
  for (const { name, run } of transportContract(tcpSubject)) test(name, run);

  test('a handler that throws is a retry', async () => {
    const subject = await tcpSubject();
    try {
      const refused = sampleMessage({ id: 'r', topic: 'refused', payload: 1 });
      expect(await subject.transport.send([refused], { signal })).toMatchObject([{ status: 'retry' }]);
    } finally {
      await subject.close();
    }
  });

  test('the receiver gets the id, the key and the headers beside the payload', async () => {
    const port = await freePort();
    const seen: unknown[] = [];
    @Controller()
    class Receiver {
      @MessagePattern('sample')
      answer(@Payload() data: unknown): void {
        seen.push(data);
      }
    }
    const module = await Test.createTestingModule({ controllers: [Receiver] }).compile();
    const options = { host: '127.0.0.1', port };
    const service = module.createNestMicroservice<MicroserviceOptions>({ transport: Kind.TCP, options, logger: false });
    await service.listen();
    const client = ClientProxyFactory.create({ transport: Kind.TCP, options });
    try {
      const message = sampleMessage({ id: 'm1', payload: { a: 1 }, key: 'k', headers: { h: 'v' } });
      await clientProxyTransport(client, { confirm: 'reply' }).send([message], { signal });
      expect(seen).toEqual([
        { id: 'm1', topic: 'sample', key: 'k', payload: { a: 1 }, headers: { h: 'v' }, createdAt: message.createdAt },
      ]);
    } finally {
      client.close();
      await service.close();
    }
  });
});

describe('over Redis, with the answer of the other side', () => {
  const { hostname: host, port } = new URL(process.env.REDIS_URL || 'redis://127.0.0.1:6379');
  async function redisSubject(): Promise<ContractSubject> {
    const ids: string[] = [];
    const options = { transport: Kind.REDIS, options: { host, port: Number(port || 6379) } } as const;
    const service = await startService(options, ids);
    const client = ClientProxyFactory.create(options);
    return {
      transport: clientProxyTransport(client, { confirm: 'reply' }),
      arrived: () => ids,
      async close() {
        client.close();
        await service.close();
      },
    };
  }

  for (const { name, run } of transportContract(redisSubject)) test(name, run);
});

describe('a noting transport', () => {
  const open = (): ContractSubject => {
    const transport = notingTransport(undefined, 20);
    return { transport, arrived: () => transport.ids(), close: () => undefined };
  };
  for (const { name, run } of transportContract(open)) test(name, run);

  test('the contract notices a transport that loses messages', async () => {
    const lossy = (): ContractSubject => ({
      transport: notingTransport(),
      arrived: () => [],
      cutOff: () => undefined,
      close: () => undefined,
    });
    const away = transportContract(lossy).find(({ name }) => name.startsWith('while the other side is away'));
    await expect(away?.run()).rejects.toThrow('it counts as sent');
  });
});

describe('options', () => {
  const create = (transport: Kind.TCP | Kind.REDIS) => ClientProxyFactory.create({ transport });

  test.each([
    ['TCP', Kind.TCP],
    ['Redis', Kind.REDIS],
  ] as const)('%s gives no confirmation: what sent means must be said', (_name, kind) => {
    expect(() => clientProxyTransport(create(kind))).toThrow(InvalidOptionsError);
    expect(() => clientProxyTransport(create(kind), { confirm: 'broker' })).toThrow('no confirmation');
    expect(clientProxyTransport(create(kind), { confirm: 'none' }).name).toBe('client-proxy');
  });

  test('what is no client, and unknown options, are refused', () => {
    expect(() => clientProxyTransport({} as never)).toThrow(InvalidOptionsError);
    expect(() => clientProxyTransport(create(Kind.TCP), { confirms: 'reply' } as never)).toThrow(InvalidOptionsError);
  });
});

ifFound('over RabbitMQ, with the confirmation of the broker', () => {
  let database: TestDatabase;
  let queue: TestQueue;
  const clients: ClientProxy[] = [];
  const apps: OutboxApp[] = [];
  const children: Child[] = [];

  beforeAll(async () => {
    database = await migrated(await createTestDatabase('client_proxy'));
  });
  beforeEach(async () => {
    queue = await createTestQueue(rabbitmq ?? '');
  });
  afterEach(async () => {
    for (const child of children.splice(0)) await child.kill();
    for (const app of apps.splice(0)) await app.close();
    for (const client of clients.splice(0)) await client.close();
    await queue.drop();
    await database.query('DELETE FROM outbox_message');
  });
  afterAll(() => database.drop());

  function clientOf(options: Record<string, unknown> = {}): ClientProxy {
    const client = ClientProxyFactory.create({
      transport: Kind.RMQ,
      options: { urls: [queue.url], queue: queue.name, noAssert: true, ...options },
    });
    clients.push(client);
    return client;
  }
  async function taken(): Promise<{ id: string; headers: Record<string, unknown>; content: unknown }[]> {
    const found = [];
    for (;;) {
      const message = await queue.channel.get(queue.name, { noAck: true });
      if (!message) return found;
      const { messageId, headers = {} } = message.properties;
      found.push({ id: String(messageId), headers, content: JSON.parse(message.content.toString()) });
    }
  }

  const subject = (): ContractSubject => {
    const ids: string[] = [];
    return {
      transport: clientProxyTransport(clientOf()),
      async arrived() {
        ids.push(...(await taken()).map(({ id }) => id));
        return ids;
      },
      async cutOff() {
        await queue.channel.deleteQueue(queue.name);
      },
      close: () => undefined,
    };
  };
  for (const { name, run } of transportContract(subject)) test(name, run);

  test('the payload arrives as the data of the pattern, id and headers as properties', async () => {
    const message = sampleMessage({ id: 'm1', topic: 'order.paid', payload: { a: 1 }, key: 'k', headers: { h: 'v' } });
    await clientProxyTransport(clientOf()).send([message], { signal });
    expect(await taken()).toEqual([
      {
        id: 'm1',
        headers: expect.objectContaining({ h: 'v', 'content-type': 'application/json', 'message-key': 'k' }),
        content: { pattern: 'order.paid', data: { a: 1 } },
      },
    ]);
  });

  test('what no queue takes is given back: it is tried again, not sent, from the first message on', async () => {
    await queue.channel.deleteQueue(queue.name);
    const transport = clientProxyTransport(clientOf());
    for (let n = 0; n < 3; n++) {
      const results = await transport.send([sampleMessage({ id: `m${n}`, payload: n })], { signal });
      expect(results).toMatchObject([{ status: 'retry', error: { code: 'unroutable' } }]);
    }
  });

  test('so it is with an exchange that nothing is bound to, in the table too', async () => {
    const exchange = `${queue.name}.exchange`;
    const transport = clientProxyTransport(clientOf({ wildcards: true, exchange }));
    const app = await startOutboxApp(database, { outbox: { maxRetry: 1, transports: { out: transport } } });
    apps.push(app);
    await app.send({ topic: 'order.paid', payload: 1 });
    await app.outbox.runOnce();
    expect(await outboxCounts(database)).toEqual({ pending: 1 });
    await queue.channel.bindQueue(queue.name, exchange, 'order.*');
    await app.outbox.runOnce();
    expect(await outboxCounts(database)).toEqual({ sent: 1 });
    expect(await taken()).toHaveLength(1);
    await queue.channel.deleteExchange(exchange);
  });

  test('SIGTERM in the middle: what is marked sent is at the broker, the rest waits in the table', async () => {
    const app = await startOutboxApp(database);
    apps.push(app);
    const child = startChild(new URL('../../support/fixtures/rabbitmq-relay.ts', import.meta.url), {
      env: { DATABASE_URL: database.url, RABBITMQ_URL: queue.url, QUEUE: queue.name },
    });
    children.push(child);
    await child.line('ready', 60_000);
    await app.send(Array.from({ length: 2_000 }, (_, n) => ({ topic: 't', payload: n })));
    await waitUntil(async () => (await outboxCounts(database)).sent, { what: 'some are sent' });
    child.signal('SIGTERM');
    expect(await child.ended).toMatchObject({ signal: 'SIGTERM' });
    const { sent = 0, pending = 0, ...others } = await outboxCounts(database);
    expect({ others, all: sent + pending }).toEqual({ others: {}, all: 2_000 });
    const rows = await database.query<{ message_id: string }>(
      "SELECT message_id FROM outbox_message WHERE status = 'sent'",
    );
    const arrived = (await taken()).map(({ id }) => id);
    expect(arrived.sort()).toEqual(rows.map((row) => row.message_id).sort());
  });
});
