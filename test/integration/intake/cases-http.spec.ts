// Cases of CASES.md about signatures over HTTP, on both adapters: raw bytes of every content type, parsers of others,
// compressed bodies, clients that break off. Each test is named by its case.
import { createHmac } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { hmacSignature, InboxModule, MailroomEvents, type Receipt, type SourceOptions } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { waitUntil } from '../../support/wait-until.js';

const secret = 'a secret of 32 characters, or so';
const sign = (bytes: Uint8Array) => createHmac('sha256', secret).update(bytes).digest('hex');
const verify = hmacSignature({ secrets: [secret], header: 'x-signature', algorithm: 'sha256', encoding: 'hex' });

let database: TestDatabase;
let app: INestApplication;
let outer: Server | undefined;
let logged: string[];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('intake_http_cases'));
});
afterAll(() => database.drop());
beforeEach(async () => {
  logged = [];
  outer = undefined;
  await database.query('DELETE FROM inbox_message');
});
afterEach(async () => {
  await new Promise<void>((resolve) => (outer ? outer.close(() => resolve()) : resolve()));
  await app.close();
});

async function start(adapter: ExpressAdapter | FastifyAdapter, source: Partial<SourceOptions> = {}): Promise<void> {
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      ScheduleModule.forRoot(),
      InboxModule.forRoot({
        shutdown: { readinessDelay: 0 },
        sources: {
          raw: {
            path: 'in',
            type: 'raw',
            verify,
            dedupKey: (push) => push.header('x-delivery') ?? null,
            maxBodyBytes: 10_000,
            ...source,
          },
        },
      }),
    ],
  }).compile();
  const note = (message: unknown) => void logged.push(JSON.stringify(message));
  const logger = { log: () => undefined, debug: () => undefined, warn: note, error: note };
  app = module.createNestApplication(adapter as ExpressAdapter, { logger });
}

const portOf = (server: Server) => (server.address() as AddressInfo).port;
const listen = async () => {
  await app.listen(0, '127.0.0.1');
  return portOf(app.getHttpServer());
};
function post(port: number, body: Uint8Array, headers: Record<string, string> = {}): Promise<Response> {
  const signed = { connection: 'close', 'x-signature': sign(body), ...headers };
  return fetch(`http://127.0.0.1:${port}/in`, { method: 'POST', body, headers: signed });
}
const bodies = async () =>
  (await database.query<{ body: Buffer }>('SELECT body FROM inbox_message ORDER BY id')).map(({ body }) => body);

const adapters = { Express: () => new ExpressAdapter(), Fastify: () => new FastifyAdapter() };

describe.each(Object.entries(adapters))('%s', (_name, adapter) => {
  it.each([
    ['application/x-www-form-urlencoded', Buffer.from('a=1&b=%2B+%00')],
    ['text/plain', Buffer.from('plain \r\n')],
    ['application/cloudevents+json', Buffer.from('{ "a" : 1 }')],
    ['application/json; charset=utf-16', Buffer.from('{"a":1}', 'utf16le')],
    ['application/xml', Buffer.from('<a>\u00e9</a>', 'latin1')],
    ['', Buffer.from([0xff, 0x00, 0xfe])],
    ['application/json', Buffer.alloc(0)],
  ])('C99: a signature over the bytes of "%s" is checked on these bytes, and they are stored', async (type, sent) => {
    await start(adapter());
    const port = await listen();
    const headers: Record<string, string> = type === '' ? {} : { 'content-type': type };
    expect((await post(port, sent, headers)).status).toBe(200);
    expect((await post(port, sent, { ...headers, 'x-signature': sign(Buffer.from('other')) })).status).toBe(401);
    const stored = await bodies();
    expect(stored.map((body) => body.equals(sent))).toEqual([true]);
  });

  it.each(['plain', 'wire'] as const)(
    'C101: with gzip %s a body signed so is stored unpacked, signed otherwise it is a 401',
    async (gzip) => {
      await start(adapter(), { gzip });
      const port = await listen();
      const plain = Buffer.from('{"a":1}'.padEnd(5_000));
      const packed = gzipSync(plain);
      const zipped = { 'content-type': 'application/json', 'content-encoding': 'gzip' };
      const signedOver = (bytes: Uint8Array) => post(port, packed, { ...zipped, 'x-signature': sign(bytes) });
      const statuses = [(await signedOver(plain)).status, (await signedOver(packed)).status];
      expect(statuses).toEqual(gzip === 'plain' ? [200, 401] : [401, 200]);
      expect((await bodies()).map((body) => body.equals(plain))).toEqual([true]);
      expect((await post(port, plain)).status).toBe(200);
      expect((await post(port, plain, zipped)).status).toBe(400);
      expect((await post(port, packed, { ...zipped, 'content-encoding': 'br' })).status).toBe(415);
    },
  );

  it('C101: a gzip that unpacks to far more than the limit is a 413, and is not unpacked further', async () => {
    await start(adapter(), { gzip: 'plain' });
    const port = await listen();
    const bomb = gzipSync(Buffer.alloc(8 * 1_048_576));
    expect(bomb.length).toBeLessThan(10_000);
    const most = process.memoryUsage().arrayBuffers + 4 * 1_048_576;
    for (let n = 0; n < 20; n++) {
      expect((await post(port, bomb, { 'content-encoding': 'gzip' })).status).toBe(413);
      expect(process.memoryUsage().arrayBuffers).toBeLessThan(most);
    }
    expect(await bodies()).toEqual([]);
  });

  it('C107: clients that break off in the middle leave no row and no noise; who missed its answer gets it again', async () => {
    await start(adapter());
    const port = await listen();
    const stored: string[] = [];
    app.get(MailroomEvents).on('stored', ({ id }) => stored.push(id));
    const body = Buffer.from('{"n":1}');
    const head = (delivery: string) =>
      `POST /in HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-signature: ${sign(body)}\r\nx-delivery: ${delivery}\r\ncontent-length: ${body.length}\r\n\r\n`;
    const breakOff = (text: string) =>
      new Promise<void>((resolve, reject) => {
        const socket = connect(port, '127.0.0.1');
        socket.on('error', reject).on('close', () => resolve());
        socket.write(text, () => socket.destroy());
      });
    await Promise.all(Array.from({ length: 100 }, (_, n) => breakOff(`${head(`half${n}`)}${body.subarray(0, 3)}`)));
    await Promise.all(Array.from({ length: 100 }, (_, n) => breakOff(head(`whole${n}`) + body)));
    // Whatever of the second kind arrived is stored: the sender cannot know, so it pushes all of them again.
    const again = await Promise.all(
      Array.from({ length: 100 }, async (_, n) => (await post(port, body, { 'x-delivery': `whole${n}` })).json()),
    );
    expect(new Set(again.map((receipt) => (receipt as Receipt).id)).size).toBe(100);
    await waitUntil(() => stored.length === 100, { what: 'each message was stored once' });
    const keys = await database.query<{ k: string }>('SELECT CONVERT(dedup_key USING utf8mb4) AS k FROM inbox_message');
    expect(keys.map(({ k }) => k).sort()).toEqual(Array.from({ length: 100 }, (_, n) => `whole${n}`).sort());
    expect(logged.filter((line) => !line.includes('inbox.enabled is false'))).toEqual([]);
  });

  it('another parser that was registered first does not see the pushes of a mounted path', async () => {
    const own = adapter();
    if (own instanceof ExpressAdapter)
      for (const parser of ['json', 'urlencoded'] as const) own.useBodyParser(parser, false);
    else
      own
        .getInstance()
        .addContentTypeParser('application/x-custom', { parseAs: 'string' }, (_request, _body, done) => done(null, {}));
    await start(own);
    const port = await listen();
    const sent = Buffer.from('{ "a":  1 }');
    for (const type of ['application/json', 'application/x-custom', 'application/x-www-form-urlencoded']) {
      expect((await post(port, sent, { 'content-type': type })).status).toBe(200);
    }
    expect((await bodies()).map(String)).toEqual(['{ "a":  1 }', '{ "a":  1 }', '{ "a":  1 }']);
  });
});

describe('a parser in front of the whole application', () => {
  const body = Buffer.from('{ "a":  1 }');
  /** The application within another Express, whose parser has read the request before. */
  async function behind(options: { keepsRawBody: boolean }): Promise<number> {
    await start(new ExpressAdapter());
    await app.init();
    const front = new ExpressAdapter();
    front.useBodyParser('json', options.keepsRawBody);
    front.use(app.getHttpAdapter().getInstance());
    outer = createServer(front.getInstance());
    await new Promise<void>((resolve) => outer?.listen(0, '127.0.0.1', resolve));
    return portOf(outer);
  }

  it('that consumed the bytes is told at the first push, with what to change, and nothing is acknowledged', async () => {
    const port = await behind({ keepsRawBody: false });
    const answer = await post(port, body, { 'content-type': 'application/json' });
    expect(answer.status).toBe(500);
    expect(await bodies()).toEqual([]);
    expect(logged.join('\n')).toMatch(/a body parser consumed the request.*mount mailroom before.*rawBody/);
  });

  it('that kept them as rawBody is fine: the signature is over these', async () => {
    const port = await behind({ keepsRawBody: true });
    expect((await post(port, body, { 'content-type': 'application/json' })).status).toBe(200);
    expect((await bodies()).map(String)).toEqual([body.toString()]);
  });

  it('that consumed them on Fastify, by a hook, is told too', async () => {
    const adapter = new FastifyAdapter();
    adapter.getInstance().addHook('preParsing', async (_request, _reply, payload) => {
      for await (const _chunk of payload) void _chunk;
      return payload;
    });
    await start(adapter);
    const answer = await post(await listen(), body, { 'content-type': 'application/json' });
    expect(answer.status).toBe(500);
    expect(await bodies()).toEqual([]);
    expect(logged.join('\n')).toMatch(/a body parser consumed the request/);
  });
});
