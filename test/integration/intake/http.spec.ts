// The mounted path on both HTTP adapters: the bytes arrive as sent whatever the content type, and what cannot be taken
// is answered so that the sender knows whether to push again.

import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { afterAll, afterEach, beforeAll, describe, expect, it } from '@jest/globals';
import type { INestApplication } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxModule } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { waitUntil } from '../../support/wait-until.js';

const adapters = {
  express: { adapter: () => new ExpressAdapter(), rawBody: false },
  'express with rawBody': { adapter: () => new ExpressAdapter(), rawBody: true },
  fastify: { adapter: () => new FastifyAdapter(), rawBody: false },
};

describe.each(Object.entries(adapters))('a mounted path on %s', (_name, { adapter, rawBody }) => {
  let database: TestDatabase;
  let app: INestApplication;
  let port: number;

  beforeAll(async () => {
    database = await migrated(await createTestDatabase('intake_http'));
    const module = await Test.createTestingModule({
      imports: [
        TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
        ScheduleModule.forRoot(),
        InboxModule.forRoot({
          shutdown: { readinessDelay: 0 },
          sources: { raw: { path: 'in', type: 'raw', maxBodyBytes: 1_000 } },
        }),
      ],
    }).compile();
    app = module.createNestApplication(adapter() as ExpressAdapter, { logger: false, rawBody });
    await app.listen(0, '127.0.0.1');
    port = (app.getHttpServer().address() as AddressInfo).port;
  });
  afterAll(async () => {
    await app.close();
    await database.drop();
  });
  afterEach(() => database.query('DELETE FROM inbox_message'));

  const post = (body: Uint8Array, headers: Record<string, string> = {}) =>
    fetch(`http://127.0.0.1:${port}/in`, { method: 'POST', body, headers: { connection: 'close', ...headers } });
  const bodies = () => database.query<{ body: Buffer }>('SELECT body FROM inbox_message ORDER BY id');

  it.each([
    'application/json',
    'application/cloudevents+json',
    'application/x-www-form-urlencoded',
    'text/plain; charset=utf-16',
    'text/xml',
    'application/octet-stream',
    '',
  ])('stores the bytes of content type "%s"', async (type) => {
    const sent = Buffer.from([0xef, 0xbb, 0xbf, 0x7b, 0xff, 0x00, 0x25, 0x32, 0x42, 0x2b, 0x0a]);
    const answer = await post(sent, type === '' ? {} : { 'content-type': type });
    expect([answer.status, await answer.json()]).toEqual([
      200,
      { id: expect.any(String), duplicate: false, status: 'stored' },
    ]);
    expect((await bodies())[0]?.body.equals(sent)).toBe(true);
  });

  it('answers a content type that is none for good, by the framework or by storing the bytes', async () => {
    // Fastify itself refuses it before any parser is asked.
    expect([200, 415]).toContain((await post(Buffer.from('x'), { 'content-type': 'not a content type' })).status);
  });

  it('answers 413 above the limit and 415 for a compressed body, and stores neither', async () => {
    expect((await post(Buffer.alloc(1_000, 97), { 'content-type': 'text/plain' })).status).toBe(200);
    expect((await post(Buffer.alloc(1_001, 97), { 'content-type': 'text/plain' })).status).toBe(413);
    const zipped = await post(gzipSync('{}'), { 'content-encoding': 'gzip', 'content-type': 'application/json' });
    expect(zipped.status).toBe(415);
    expect(await bodies()).toHaveLength(1);
  });

  it('stores nothing for a sender that goes away in the middle, and goes on', async () => {
    const socket = connect(port, '127.0.0.1');
    socket.write('POST /in HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{"a":');
    await waitUntil(() => socket.bytesWritten > 0, { what: 'half of the body is sent' });
    socket.destroy();
    expect((await post(Buffer.from('{}'), { 'content-type': 'application/json' })).status).toBe(200);
    expect((await bodies()).map(({ body }) => body.toString())).toEqual(['{}']);
  });
});
