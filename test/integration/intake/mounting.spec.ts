// Where a mounted path sits: before everything of the framework, on servers that Nest made and on others, while all other
// requests go on to the framework as if mailroom were not there.
import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from '@jest/globals';
import { Controller, Get, type INestApplication, Post } from '@nestjs/common';
import { ExpressAdapter } from '@nestjs/platform-express';
import { FastifyAdapter } from '@nestjs/platform-fastify';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { InboxModule } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';

@Controller()
class OtherController {
  @Get('in')
  read() {
    return { by: 'the framework' };
  }

  @Post('other')
  write() {
    return { by: 'the framework' };
  }
}

interface Setup {
  readonly adapter: () => ExpressAdapter | FastifyAdapter;
  /** True: the requests come through a server of the test's own, which only has the framework's listener. */
  readonly ownServer?: boolean;
}

const setups: Record<string, Setup> = {
  express: { adapter: () => new ExpressAdapter() },
  'express behind a server of its own': { adapter: () => new ExpressAdapter(), ownServer: true },
  fastify: { adapter: () => new FastifyAdapter({ trustProxy: true }) },
};

describe.each(Object.entries(setups))('a mounted path on %s', (_name, { adapter, ownServer }) => {
  let database: TestDatabase;
  let app: INestApplication;
  let server: Server;
  const addresses: (string | undefined)[] = [];
  const seen: (string | undefined)[] = [];

  beforeAll(async () => {
    database = await migrated(await createTestDatabase('mounting'));
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
              accept: (push) => {
                addresses.push(push.ip);
                return true;
              },
            },
          },
        }),
      ],
      controllers: [OtherController],
    }).compile();
    app = module.createNestApplication(adapter() as ExpressAdapter, { logger: false });
    // Another listener of the server, as libraries add them that count requests.
    app.getHttpServer().on('request', ((request) => seen.push(request.url)) satisfies RequestListener);
    if (adapter() instanceof ExpressAdapter) app.getHttpAdapter().getInstance().set('trust proxy', true);
    await app.init();
    server = ownServer ? createServer(app.getHttpAdapter().getInstance()) : app.getHttpServer();
    if (!ownServer) await app.listen(0, '127.0.0.1');
    else await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(async () => {
    await new Promise((resolve) => server.close(resolve));
    await app.close();
    await database.drop();
  });

  /** Whether the last answer had been through Express, which signs what it touches. */
  let byExpress = false;
  const ask = async (path: string, init: RequestInit = {}) => {
    const { port } = server.address() as AddressInfo;
    const headers = { connection: 'close', 'content-type': 'application/json', ...init.headers };
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, { ...init, headers });
    byExpress = answer.headers.has('x-powered-by');
    return { status: answer.status, body: await answer.json() };
  };
  const push = (path: string, headers: Record<string, string> = {}) =>
    ask(path, { method: 'POST', body: '{}', headers });

  it('takes pushes, with and without a query', async () => {
    expect(await push('/in')).toMatchObject({ status: 200, body: { status: 'stored' } });
    expect(await push('/in?try=2')).toMatchObject({ status: 200, body: { status: 'stored' } });
  });

  it('takes them before Express has touched them, where the server is known', async () => {
    await push('/other');
    expect(byExpress).toBe(adapter() instanceof ExpressAdapter);
    await push('/in');
    expect(byExpress).toBe(ownServer === true);
  });

  it('leaves every other request to the framework', async () => {
    expect(await ask('/in')).toEqual({ status: 200, body: { by: 'the framework' } });
    expect(await push('/other')).toEqual({ status: 201, body: { by: 'the framework' } });
    expect(await push('/in/deeper')).toMatchObject({ status: 404 });
  });

  it('knows the sender behind a proxy that the framework trusts', async () => {
    addresses.length = 0;
    await push('/in');
    await push('/in', { 'x-forwarded-for': '192.0.2.7' });
    expect(addresses).toEqual(['127.0.0.1', '192.0.2.7']);
  });

  it('does not take the requests from other listeners of the server', async () => {
    seen.length = 0;
    await push('/in');
    await push('/other');
    expect(seen).toEqual(ownServer ? [] : ['/in', '/other']);
  });
});
