// A row above the server's max_allowed_packet (C95), on a server whose limit is below the body limit of the inbox: it is
// refused for good and never sent, since the server would end the connection that sends it.
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, it } from '@jest/globals';
import { createConnection } from 'mysql2/promise';
import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import type { InboxOptions, Receipt } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';

const mebibyte = 1_048_576;

let server: PrivateDatabase;
let database: TestDatabase;
let app: InboxApp;

beforeAll(async () => {
  server = await startPrivateDatabase('like-the-tests');
  await atServer(`SET GLOBAL max_allowed_packet = ${mebibyte}`);
  database = await migrated(await createTestDatabase('large_row', { serverUrl: server.url }));
});
afterAll(async () => {
  await database.drop();
  await server.remove();
});
afterEach(() => app.close());

async function atServer<Row>(sql: string): Promise<Row[]> {
  const connection = await createConnection(server.url);
  try {
    const [rows] = await connection.query(sql);
    return rows as Row[];
  } finally {
    await connection.end();
  }
}

async function start(inbox: Partial<InboxOptions> = {}): Promise<void> {
  app = await startInboxApp(database, {
    inbox: {
      intake: { maxBodyBytes: 5 * mebibyte },
      sources: {
        raw: { type: 'raw', path: 'raw' },
        many: { type: 'raw', split: (push) => push.json },
      },
      ...inbox,
    },
  });
}

const raw = (bytes: number, options = {}) =>
  app.inbox.receive('raw', { rawBody: Buffer.alloc(bytes, 0x27) }, options) as Promise<Receipt>;
/** Connections that the server ended or that failed while something was sent. */
const aborted = async () =>
  Number((await atServer<{ Value: string }>("SHOW GLOBAL STATUS LIKE 'Aborted_clients'"))[0]?.Value);
const rows = async () => Number((await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n);

it('is a 413 that costs no connection, and small ones on the same pool are 200 (C95)', async () => {
  await start({ controlPool: 2 });
  await app.app.listen(0, '127.0.0.1');
  const { port } = app.app.getHttpServer().address() as AddressInfo;
  const post = (body: Uint8Array) =>
    fetch(`http://127.0.0.1:${port}/raw`, { method: 'POST', body, headers: { connection: 'close' } });
  const before = await aborted();
  const large = await Promise.all(Array.from({ length: 5 }, () => post(Buffer.alloc(2 * mebibyte, 0xff))));
  expect(large.map(({ status }) => status)).toEqual([413, 413, 413, 413, 413]);
  const small = await Promise.all(Array.from({ length: 50 }, (_, n) => post(Buffer.from(`small ${n}`))));
  expect(new Set(small.map(({ status }) => status))).toEqual(new Set([200]));
  expect(await rows()).toBe(50);
  expect(await aborted()).toBe(before);
});

it('the limit is found by size: what fits beside its columns is stored, byte by byte', async () => {
  await start();
  for (const bytes of [mebibyte - 8_192, mebibyte - 5_000]) {
    const { id } = await raw(bytes);
    const [row] = await database.query<{ bytes: number }>(
      'SELECT OCTET_LENGTH(body) AS bytes FROM inbox_message WHERE id = ?',
      [id],
    );
    expect(row?.bytes).toBe(bytes);
  }
  await expect(raw(mebibyte)).rejects.toMatchObject({ statusCode: 413 });
});

it('pushes that are stored together stay below it', async () => {
  await start();
  const before = await aborted();
  // Bodies of just under 1 MiB in 128 rows, or in 100 of a split push: with their columns they are above it.
  const receipts = await Promise.all(Array.from({ length: 260 }, () => raw(8_180)));
  expect(new Set(receipts.map(({ status }) => status))).toEqual(new Set(['stored']));
  const items = Array.from({ length: 200 }, () => 'x'.repeat(10_470));
  const split = (await app.inbox.receive('many', { rawBody: JSON.stringify(items) })) as readonly Receipt[];
  expect(split).toHaveLength(200);
  expect(await aborted()).toBe(before);
});

it('within a transaction of the application, where bytes travel as hex, it is refused before the transaction breaks', async () => {
  await start();
  const stored = await rows();
  await app.dataSource.transaction(async (manager) => {
    await expect(raw(600_000, { manager })).rejects.toMatchObject({ statusCode: 413 });
    expect((await raw(400_000, { manager })).status).toBe('stored');
  });
  expect(await rows()).toBe(stored + 1);
});

it('a limit that is raised is noticed by those who connect after it', async () => {
  await start();
  expect(await app.app.get<InboxParts>(inboxPartsToken).packet.ask()).toBe(mebibyte);
  await expect(raw(2 * mebibyte)).rejects.toMatchObject({ statusCode: 413 });
  await app.close();
  await atServer(`SET GLOBAL max_allowed_packet = ${16 * mebibyte}`);
  await start();
  expect((await raw(2 * mebibyte)).status).toBe('stored');
});
