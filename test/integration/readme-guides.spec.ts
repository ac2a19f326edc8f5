// Every example of docs/handlers.md and docs/options.md, pasted into a project under its own name and run as printed on a
// real database: an example that does not compile or does not do what its page says fails here.
import { createHmac } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { INestApplication, Type } from '@nestjs/common';
import type { AbstractHttpAdapter } from '@nestjs/core';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxHandler, type InboxMessage, InboxModule, InboxService, type SourceOptions } from '../../src/index.js';
import { drainInbox } from '../../src/testing/index.js';
import { startChild } from '../support/child.js';
import { createTestDatabase, migrated } from '../support/database.js';
import { codeBlocks, docProject } from '../support/doc-examples.js';
import { testRedisUrl } from '../support/redis.js';
import { waitUntil } from '../support/wait-until.js';

// Those of docs/brokers.md run in intake/brokers.spec.ts, which needs a broker.
const blocks = ['README.md', 'docs/handlers.md', 'docs/options.md', 'docs/brokers.md'].flatMap(codeBlocks);
const project = docProject(blocks);
const database = await migrated(await createTestDatabase('guides'));
const secrets = { orders: `whsec_${'b3JkZXJz'.repeat(4)}`, payments: 'secret of the payment provider' };
Object.assign(process.env, {
  DATABASE_URL: database.url,
  REDIS_URL: testRedisUrl(),
  ORDERS_SECRET: secrets.orders,
  PAYMENTS_SECRET: secrets.payments,
});
const example = (name: string) => import(project.path(name));

// The page's own test runs here as one of ours. It comes first, so that its application closes before the database goes.
await example('order-events.spec.ts');

let app: INestApplication | undefined;

afterEach(async () => {
  await app?.close();
  app = undefined;
  await database.query('DELETE FROM inbox_message');
});
afterAll(async () => {
  project.remove();
  await database.drop();
});

test('every example has a name, and none is left out here', () => {
  const names = blocks.filter(({ language }) => language !== 'sh').map(({ name }) => name);
  expect(names.sort()).toEqual(
    [
      'app.module.ts',
      'contract-events.ts',
      'contract-states.ts',
      'crm.controller.ts',
      'main.ts',
      'order-events.spec.ts',
      'order-events.ts',
      'order-queue.ts',
      'order-worker.ts',
      'order.ts',
      'push.mjs',
      'shipment-events.ts',
      'shipping-source.ts',
      'sources.ts',
      'warehouse-events.ts',
    ].sort(),
  );
});

test('every example compiles in strict mode', async () => {
  const typescript = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));
  const files = blocks.flatMap(({ name }) => (name?.endsWith('.ts') ? [project.path(name)] : []));
  const options = '--strict --noEmit --skipLibCheck --module nodenext --target es2022 --lib es2024 --types node';
  const decorators = ['--experimentalDecorators', '--emitDecoratorMetadata'];
  const compiler = startChild(typescript, {
    args: [...options.split(' '), ...decorators, ...files],
    cwd: project.path('.'),
  });
  const { code } = await compiler.ended;
  expect(compiler.stdout).toBe('');
  expect(code).toBe(0);
  // Several times what it takes on a machine that has nothing else to do.
}, 180_000);

async function start(provider: Type, sources: Record<string, SourceOptions>): Promise<InboxService> {
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      InboxModule.forRoot({ backoff: [0], shutdown: { readinessDelay: 0 }, sources }),
    ],
    providers: [provider],
  }).compile();
  app = module.createNestApplication({ logger: false });
  await app.init();
  return app.get(InboxService);
}

const stored = () => database.query('SELECT type, status, attempts, error_kind AS kind FROM inbox_message ORDER BY id');

describe('docs/handlers.md', () => {
  test('contract-events.ts: the same again is a success, a contradiction is a conflict', async () => {
    await database.query('CREATE TABLE contract (id VARCHAR(64) PRIMARY KEY, signer VARCHAR(64))');
    const { ContractEvents } = await example('contract-events.ts');
    const inbox = await start(ContractEvents, { contracts: { type: 'contract.signed' } });
    for (const signer of ['Ada', 'Ada', 'Bob']) {
      await inbox.receive('contracts', { rawBody: JSON.stringify({ contractId: 'c1', signer }) });
    }
    await drainInbox(inbox);
    expect(await stored()).toMatchObject([
      { status: 'success', attempts: 1 },
      { status: 'success', attempts: 1 },
      { status: 'failed', attempts: 1, kind: 'conflict' },
    ]);
    expect(await database.query('SELECT * FROM contract')).toEqual([{ id: 'c1', signer: 'Ada' }]);
  });

  test('contract-states.ts: a batch for each contract, a conflict fails alone', async () => {
    await database.query(
      'CREATE TABLE contract_state (contract_id VARCHAR(64), status VARCHAR(16), signer VARCHAR(64), UNIQUE (contract_id, status))',
    );
    const { ContractStates } = await example('contract-states.ts');
    const inbox = await start(ContractStates, { contracts: { type: 'contract.signed' } });
    for (const [contractId, status, signer] of [
      ['c1', 'sent', 'Ada'],
      ['c2', 'sent', 'Ada'],
      ['c1', 'signed', 'Ada'],
      ['c1', 'signed', 'Bob'],
      ['c1', 'signed', 'Ada'],
    ]) {
      await inbox.receive('contracts', { rawBody: JSON.stringify({ contractId, status, signer }) });
    }
    await drainInbox(inbox);
    const success = { status: 'success', attempts: 1, kind: null };
    const conflict = { status: 'failed', attempts: 1, kind: 'conflict' };
    expect(await stored()).toMatchObject([success, success, success, conflict, success]);
    expect(await database.query('SELECT * FROM contract_state ORDER BY contract_id, status')).toEqual([
      { contract_id: 'c1', status: 'sent', signer: 'Ada' },
      { contract_id: 'c1', status: 'signed', signer: 'Ada' },
      { contract_id: 'c2', status: 'sent', signer: 'Ada' },
    ]);
  });

  test('shipment-events.ts: what the other side answers decides what becomes of the message', async () => {
    const erp = await startErp({ '1': 201, '2': 404, '3': 429, '4': 500 });
    process.env.ERP_URL = erp.url;
    try {
      const { ShipmentEvents } = await example('shipment-events.ts');
      const inbox = await start(ShipmentEvents, { 'order-center': { type: 'order.shipped' } });
      for (const orderId of ['1', '2', '3', '4']) {
        await inbox.receive('order-center', { rawBody: JSON.stringify({ orderId }) });
      }
      await drainInbox(inbox);
      expect(await stored()).toMatchObject([
        { status: 'success', attempts: 1 },
        { status: 'failed', attempts: 1, kind: 'unknown-order' },
        { status: 'pending', attempts: 1 },
        { status: 'failed', attempts: 6, kind: 'Error' },
      ]);
      expect(new Set(erp.keys).size).toBe(4);
      const due =
        'SELECT TIMESTAMPDIFF(SECOND, updated_at, next_attempt_at) AS seconds FROM inbox_message WHERE status = ?';
      expect(await database.query(due, ['pending'])).toEqual([{ seconds: 7 }]);
    } finally {
      await erp.close();
    }
  });
});

describe('docs/handlers.md on limits', () => {
  test('warehouse-events.ts: both types share the limit, and the warehouse never sees more in a second', async () => {
    const warehouse = await startWarehouse();
    process.env.WAREHOUSE_URL = warehouse.url;
    try {
      const { WarehouseEvents } = await example('warehouse-events.ts');
      const inbox = await start(WarehouseEvents, { 'order-center': { type: (push) => push.json.type } });
      for (let n = 0; n < 25; n++) {
        const type = n % 2 ? 'order.paid' : 'order.cancelled';
        await inbox.receive('order-center', { rawBody: JSON.stringify({ type }) });
      }
      await waitUntil(
        async () => {
          await drainInbox(inbox);
          return warehouse.seen.length === 25;
        },
        { what: 'all have reached the warehouse' },
      );
      warehouse.seen.forEach((at, n) => {
        expect((warehouse.seen[n + 20] ?? Number.POSITIVE_INFINITY) - at).toBeGreaterThan(1_000);
      });
      expect(new Set((await stored()).map(({ status, attempts }) => `${status} ${attempts}`))).toEqual(
        new Set(['success 1']),
      );
    } finally {
      await warehouse.close();
    }
  });
});

describe('docs/options.md', () => {
  const adapters: Record<string, () => AbstractHttpAdapter> = {
    Express: () => new ExpressAdapter(),
    Fastify: () => new FastifyAdapter(),
  };

  test.each(Object.keys(adapters))(
    'sources.ts, app.module.ts and crm.controller.ts do as described on %s',
    async (name) => {
      const { AppModule } = await example('app.module.ts');
      const { CrmController } = await example('crm.controller.ts');
      const module = await Test.createTestingModule({ imports: [AppModule], controllers: [CrmController] }).compile();
      app = module.createNestApplication(adapters[name]?.() ?? new ExpressAdapter(), { logger: false, rawBody: true });
      await app.listen(0, '127.0.0.1');
      const { port } = (app.getHttpServer() as Server).address() as AddressInfo;
      const push = async (path: string, body: string, headers: Record<string, string> = {}) => {
        const answer = await fetch(`http://127.0.0.1:${port}/${path}`, { method: 'POST', body, headers });
        return `${answer.status} ${await answer.text()}`;
      };

      const event = (eventId: string) => ({
        eventId,
        type: 'order.paid',
        orderId: '42',
        occurredAt: '2026-01-31T12:00:00Z',
      });
      const events = JSON.stringify([event('1'), event('2'), event('1')]);
      const answer = await push('webhooks/orders', events, standardWebhooksHeaders(events));
      expect(answer.startsWith('200 ')).toBe(true);
      expect(JSON.parse(answer.slice(4))).toMatchObject([
        { status: 'stored' },
        { status: 'stored' },
        { status: 'duplicate' },
      ]);
      const single = JSON.stringify(event('2'));
      expect(await push('webhooks/orders', single, standardWebhooksHeaders(single))).toMatch(/^200 {.*"duplicate"}$/);
      expect(await push('webhooks/orders', events)).toMatch(/^401 /);

      const paid = '{"paymentId":"p1"}';
      expect(await push('webhooks/payments', paid, { 'x-signature': hmac(paid) })).toBe('200 SUCCESS');
      const news = '{"paymentId":"p2","kind":"newsletter"}';
      expect(await push('webhooks/payments', news, { 'x-signature': hmac(news) })).toBe('200 SUCCESS');

      expect(await push('crm/push', '{"name":"Ada"}', { 'content-type': 'application/json' })).toMatch(
        /"status":"stored"/,
      );
      const rows = await database.query(
        'SELECT source, type, CAST(sequence AS CHAR) AS position FROM inbox_message ORDER BY id',
      );
      expect(rows).toEqual([
        { source: 'order-center', type: 'order.paid', position: '1769860800000' },
        { source: 'order-center', type: 'order.paid', position: '1769860800000' },
        { source: 'payments', type: 'payment', position: null },
        { source: 'crm', type: 'profile', position: null },
      ]);
    },
  );
});

test('the reorder window of the guide puts parcels in order and refuses a time that is none', async () => {
  const { shipping } = (await example('shipping-source.ts')) as { shipping: SourceOptions };
  const seen: string[] = [];
  class Parcels {
    note(message: InboxMessage): void {
      seen.push(message.type);
    }
  }
  const descriptor = Object.getOwnPropertyDescriptor(Parcels.prototype, 'note') ?? {};
  InboxHandler('*', { source: 'shipping' })(Parcels.prototype, 'note', descriptor);
  const module = await Test.createTestingModule({
    imports: [TypeOrmModule.forRoot(database.options), InboxModule.forRoot({ sources: { shipping } })],
    providers: [Parcels],
  }).compile();
  app = await module.createNestApplication({ logger: false }).init();
  const inbox = app.get(InboxService);
  const push = (type: string, minute: number | string) =>
    inbox.receive('shipping', {
      rawBody: JSON.stringify({ type, eventId: type, parcelId: '7', occurredAt: `2026-02-01T10:${minute}:00Z` }),
    });
  await push('parcel.delivered', 40);
  await push('parcel.packed', 10);
  await push('parcel.shipped', 20);
  await drainInbox(inbox);
  expect(seen).toEqual([]);
  await expect(push('parcel.lost', 'soon')).rejects.toMatchObject({ statusCode: 400 });
  await database.query(
    'UPDATE inbox_message SET next_attempt_at = next_attempt_at - INTERVAL 3 SECOND, received_at = received_at - INTERVAL 3 SECOND',
  );
  await drainInbox(inbox);
  expect(seen).toEqual(['parcel.packed', 'parcel.shipped', 'parcel.delivered']);
});

function standardWebhooksHeaders(body: string): Record<string, string> {
  const time = String(Math.floor(Date.now() / 1000));
  const key = Buffer.from(secrets.orders.slice('whsec_'.length), 'base64');
  const signature = createHmac('sha256', key).update(`msg-1.${time}.${body}`).digest('base64');
  return { 'webhook-id': 'msg-1', 'webhook-timestamp': time, 'webhook-signature': `v1,${signature}` };
}

function hmac(body: string): string {
  return createHmac('sha256', secrets.payments).update(body).digest('hex');
}

/** Takes everything, and notes when. */
async function startWarehouse() {
  const seen: number[] = [];
  const server = createServer((request, response) => {
    seen.push(performance.now());
    request.resume();
    request.on('end', () => response.writeHead(204, { connection: 'close' }).end());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}

/** Answers each order with its status, and notes the idempotency keys. */
async function startErp(statuses: Readonly<Record<string, number>>) {
  const keys: (string | string[] | undefined)[] = [];
  const server = createServer(async (request, response) => {
    keys.push(request.headers['idempotency-key']);
    let body = '';
    for await (const chunk of request) body += chunk;
    const { orderId } = JSON.parse(body) as { orderId: string };
    response.writeHead(statuses[orderId] ?? 500, { 'retry-after': '7', connection: 'close' }).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    keys,
    close: () => new Promise((resolve) => server.close(resolve)),
  };
}
