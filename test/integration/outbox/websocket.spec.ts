// The websocket transport on one instance, with real ws and socket.io gateways and clients.
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { outboxCounts } from '../../support/outbox-app.js';
import { waitUntil } from '../../support/wait-until.js';
import {
  ioClient,
  startWebSocketApp,
  type TestClient,
  type WebSocketApp,
  type WebSocketAppOptions,
  wsClient,
} from '../../support/websocket-app.js';

let database: TestDatabase;
let toClose: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('websocket'));
});
afterEach(async () => {
  for (const one of toClose.reverse()) await one.close();
  toClose = [];
  for (const table of ['outbox_message', 'mailroom_receiver']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

const kept = <T extends { close(): Promise<void> }>(one: T): T => {
  toClose.push(one);
  return one;
};
const start = async (options: WebSocketAppOptions = {}): Promise<WebSocketApp> =>
  kept(await startWebSocketApp(database, options));

const countsAre = (expected: Record<string, number>) =>
  waitUntil(async () => JSON.stringify(await outboxCounts(database)) === JSON.stringify(expected), {
    what: `the counts are ${JSON.stringify(expected)}`,
  });

const idsOf = (client: TestClient) => client.frames.map(({ messageId }) => messageId);

describe.each(['ws', 'socket.io'] as const)('%s', (kind) => {
  const connect = kind === 'ws' ? wsClient : ioClient;

  test('a message is sent once its receiver has acknowledged the frame', async () => {
    const app = await start({ kind });
    let answer: (() => void) | undefined;
    const client = kept(await connect(app, 'u1', { onFrame: (_frame, reply) => (answer = reply) }));
    const [id] = await app.send({ topic: 'im.message', receiver: 'u1', sequence: 7, payload: { text: 'hé', n: 1 } });
    await waitUntil(() => client.frames.length > 0, { what: 'the frame arrives' });
    expect(client.frames).toEqual([{ messageId: id, event: 'im.message', seqNo: 7, payload: { text: 'hé', n: 1 } }]);
    expect(await outboxCounts(database)).toEqual({ sending: 1 });
    answer?.();
    await countsAre({ sent: 1 });
  });

  test('messages for somebody offline are parked without an attempt, and all leave in order when a socket connects', async () => {
    const app = await start({ kind });
    const ids = await app.send([1, 2, 3].map((n) => ({ topic: 't', receiver: 'u1', sequence: n, payload: { n } })));
    await waitUntil(async () => (await outboxCounts(database)).parked, { what: 'the first one is parked' });
    const client = kept(await connect(app, 'u1'));
    await countsAre({ sent: 3 });
    expect(idsOf(client)).toEqual(ids);
    expect(await database.query('SELECT DISTINCT attempts FROM outbox_message')).toEqual([{ attempts: 1 }]);
  });

  test('a client that leaves a frame unanswered loses its socket, and the message comes again with the same id', async () => {
    const app = await start({ kind, transport: { ackTimeout: 200 }, outbox: { sendTimeout: 2_000 } });
    const dead = kept(await connect(app, 'u1', { onFrame: () => undefined }));
    const [id] = await app.send({ topic: 't', receiver: 'u1', payload: 1 });
    await dead.closed;
    await countsAre({ parked: 1 });
    expect(app.events('send-retrying')).toMatchObject([{ attempt: 1, errorKind: 'unanswered' }]);
    const client = kept(await connect(app, 'u1'));
    await countsAre({ sent: 1 });
    expect([...idsOf(dead), ...idsOf(client)]).toEqual([id, id]);
  });

  test('a message whose clients go away each time ends as dead', async () => {
    const app = await start({ kind, outbox: { maxRetry: 2 } });
    await app.send({ topic: 't', receiver: 'u1', payload: 1 });
    for (let attempt = 1; attempt <= 3; attempt++) {
      const client: TestClient = await connect(app, 'u1', { onFrame: () => void client.close() });
      kept(client);
      await client.closed;
      await waitUntil(async () => !(await outboxCounts(database)).sending, { what: 'the attempt has ended' });
    }
    await countsAre({ dead: 1 });
    expect(app.events('dead')).toMatchObject([{ attempt: 3, errorKind: 'socket-closed' }]);
  });
});
