// The websocket transport on one instance, with real ws and socket.io gateways and clients.
import { createConnection } from 'mysql2/promise';
import { InvalidOptionsError, WebSocketReceivers, websocketTransport } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { outboxCounts } from '../../support/outbox-app.js';
import { tcpSwitch } from '../../support/tcp-switch.js';
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
    expect(await app.seen(1, 'send-retrying')).toMatchObject([{ attempt: 1, errorKind: 'unanswered' }]);
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
    expect(await app.seen(1, 'dead')).toMatchObject([{ attempt: 3, errorKind: 'socket-closed' }]);
  });
});

const silent = { onFrame: () => undefined };

test('with the cable of its client pulled every message settles in time and arrives after the reconnect, once per id', async () => {
  const app = await start({ transport: { ackTimeout: 300 }, outbox: { concurrency: 50, sendTimeout: 2_000 } });
  const cable = kept(await tcpSwitch(app.port));
  const dead = kept(await wsClient(cable, 'u1'));
  cable.cut();
  const ids = await app.send(
    Array.from({ length: 50 }, (_, n) => ({ topic: 't', receiver: 'u1', key: n, payload: n })),
  );
  await countsAre({ parked: 50 });
  expect(app.events('send-retrying').every(({ errorKind }) => /unanswered|socket-closed/.test(errorKind))).toBe(true);
  const client = kept(await wsClient(app, 'u1'));
  await countsAre({ sent: 50 });
  expect(dead.frames).toEqual([]);
  expect(idsOf(client).sort()).toEqual([...ids].sort());
});

test('a client that is dead without telling is noticed by the heartbeat, without a message for it', async () => {
  const app = await start({ transport: { heartbeat: 100 } });
  const cable = kept(await tcpSwitch(app.port));
  const alive = kept(await wsClient(app, 'u1'));
  kept(await wsClient(cable, 'u2'));
  cable.cut();
  const server = app.app.getHttpServer();
  const open = () => new Promise<number>((resolve) => server.getConnections((_: unknown, n: number) => resolve(n)));
  await waitUntil(async () => (await open()) === 1, { what: 'only the living one is left' });
  expect(alive.isOpen).toBe(true);
});

test('a client that leaves too much unanswered is sent no more for the moment; others are not held back', async () => {
  const app = await start({
    transport: { maxUnanswered: 5, ackTimeout: 2_000 },
    outbox: { concurrency: 30, sendTimeout: 5_000, backoff: [60_000] },
  });
  const [slow, quick] = [kept(await wsClient(app, 'slow', silent)), kept(await wsClient(app, 'quick'))];
  const to = (receiver: string, n: number) => ({ topic: 't', receiver, key: n, payload: n });
  await app.send(Array.from({ length: 20 }, (_, n) => to('slow', n)));
  await app.send(to('quick', 1));
  await waitUntil(() => quick.frames.length === 1, { what: 'the quick one has its message' });
  await waitUntil(() => app.events('send-retrying').length >= 15, { what: 'the rest is put back' });
  expect(slow.frames).toHaveLength(5);
  expect(
    app
      .events('send-retrying')
      .slice(0, 15)
      .every(({ errorKind }) => errorKind === 'slow-client'),
  ).toBe(true);
});

test('bytes that wait unanswered are bounded too, and a frame larger than the bound goes alone', async () => {
  const app = await start({ transport: { maxUnansweredBytes: 2_000 }, outbox: { backoff: [60_000] } });
  const answers: (() => void)[] = [];
  const client = kept(await wsClient(app, 'u1', { onFrame: (_frame, answer) => answers.push(answer) }));
  const [large] = await app.send({ topic: 't', receiver: 'u1', key: 'a', payload: 'x'.repeat(5_000) });
  await waitUntil(() => client.frames.length === 1, { what: 'the large one arrives' });
  await app.send({ topic: 't', receiver: 'u1', key: 'b', payload: 'small' });
  await waitUntil(() => app.events('send-retrying').length === 1, { what: 'the small one is put back' });
  answers[0]?.();
  await waitUntil(() => app.events('sent').length === 1, { what: 'the large one is sent' });
  expect(idsOf(client)).toEqual([large]);
});

test('a receiver with more sockets than allowed loses its oldest', async () => {
  const app = await start({ transport: { maxSockets: 2 } });
  const clients: TestClient[] = [];
  for (let n = 0; n < 3; n++) clients.push(kept(await wsClient(app, 'u1')));
  expect(await clients[0]?.closed).toEqual([1001, expect.anything()]);
  await app.send({ topic: 't', receiver: 'u1', payload: 1 });
  await countsAre({ sent: 1 });
  await waitUntil(() => clients.every(({ frames }, at) => frames.length === (at === 0 ? 0 : 1)), {
    what: 'the two others have the frame',
  });
});

test('clients that never answer do not open the breaker: others are served', async () => {
  const app = await start({
    transport: { ackTimeout: 100 },
    outbox: { sendTimeout: 2_000, backoff: [60_000], breaker: { minimumCalls: 3, openFor: '10m' } },
  });
  for (let n = 0; n < 6; n++) kept(await wsClient(app, `mute-${n}`, silent));
  const client = kept(await wsClient(app, 'u1'));
  await app.send(Array.from({ length: 6 }, (_, n) => ({ topic: 't', receiver: `mute-${n}`, payload: n })));
  await waitUntil(() => app.events('send-retrying').length === 6, { what: 'six sends are unanswered' });
  await app.send({ topic: 't', receiver: 'u1', payload: 1 });
  await waitUntil(() => client.frames.length === 1, { what: 'the other one is served' });
  expect(app.events('transport-breaker')).toEqual([]);
});

test('when an instance stops it sends its clients away, and what it did not send stays', async () => {
  const app = await start({ transport: { ackTimeout: 5_000 }, outbox: { shutdown: { deadline: 200 } } });
  const client = kept(await wsClient(app, 'u1', silent));
  await app.send({ topic: 't', receiver: 'u1', payload: 1 });
  await waitUntil(() => client.frames.length === 1, { what: 'the frame is on its way' });
  toClose.splice(toClose.indexOf(app), 1);
  await app.close();
  expect(await client.closed).toEqual([1001, expect.anything()]);
  expect(await outboxCounts(database)).toEqual({ pending: 1 });
});

test('a message without a receiver or with a payload that is no JSON is dead at once', async () => {
  const app = await start();
  await app.send([
    { topic: 't', payload: 1 },
    { topic: 't', receiver: 'u1', payload: Buffer.from([0xff, 0x00]) },
  ]);
  await countsAre({ dead: 2 });
  expect(
    app
      .events('dead')
      .map(({ errorKind }) => errorKind)
      .sort(),
  ).toEqual(['no-receiver', 'not-json']);
});

test('the text of the payload reaches a ws client as it was enqueued', async () => {
  const app = await start();
  const client = kept(await wsClient(app, 'u1'));
  const texts: string[] = [];
  client.socket.on('message', (data: Buffer) => texts.push(data.toString('utf8')));
  const body = '{"id":7088992364139642881,"amt":0.10,"x":1e400}';
  const sequence = 9_007_199_254_740_993n;
  const [id] = await app.send({ topic: 't', receiver: 'u1', sequence, payload: Buffer.from(body) });
  await countsAre({ sent: 1 });
  expect(texts).toEqual([`{"messageId":"${id}","event":"t","seqNo":"${sequence}","payload":${body}}`]);
});

test('a socket that is given back gets nothing more and stays open', async () => {
  const app = await start();
  const sockets: Parameters<WebSocketReceivers['disconnect']>[0][] = [];
  const connect = app.receivers.connect.bind(app.receivers);
  app.receivers.connect = (receiver, socket) => {
    sockets.push(socket);
    return connect(receiver, socket);
  };
  const client = kept(await wsClient(app, 'u1'));
  const [socket] = sockets;
  if (socket) app.receivers.disconnect(socket);
  await app.send({ topic: 't', receiver: 'u1', payload: 1 });
  await countsAre({ parked: 1 });
  expect([client.frames, client.isOpen]).toEqual([[], true]);
});

test('a wake that the database refuses is repeated with the heartbeat', async () => {
  const app = await start({ transport: { heartbeat: 200 } });
  await app.send({ topic: 't', receiver: 'u1', payload: 1 });
  await countsAre({ parked: 1 });
  const blocker = await createConnection(database.url);
  kept({ close: async () => blocker.destroy() });
  await blocker.query('START TRANSACTION');
  await blocker.query("SELECT 1 FROM mailroom_receiver WHERE receiver = 'u1' FOR UPDATE");
  // By the second in which each wait for the lock began: a wake gives up after one second, the next one begins later.
  const waits = new Set<string>();
  const client = kept(await wsClient(app, 'u1'));
  await waitUntil(
    async () => {
      const rows = await database.query<{ since: string }>(
        `SELECT CAST(t.trx_wait_started AS CHAR) AS since FROM information_schema.innodb_trx t
           JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
          WHERE t.trx_state = 'LOCK WAIT' AND p.db = ?`,
        [database.name],
      );
      for (const { since } of rows) waits.add(since);
      return waits.size >= 2;
    },
    // The table is a picture that is taken anew only when nobody has looked for 100 ms.
    { what: 'the wake was refused and is tried again', intervalMs: 150, timeoutMs: 20_000 },
  );
  await blocker.query('ROLLBACK');
  await countsAre({ sent: 1 });
  expect(client.frames).toHaveLength(1);
});

test('what cannot work is refused at the start', async () => {
  const receivers = new WebSocketReceivers();
  const refused = async (build: () => Parameters<typeof startWebSocketApp>[1]) => {
    let app: WebSocketApp | undefined;
    try {
      app = await startWebSocketApp(database, build());
    } catch (error) {
      expect(error).toBeInstanceOf(InvalidOptionsError);
      return (error as InvalidOptionsError).path;
    }
    await app.close();
    throw new Error('it started');
  };
  expect(await refused(() => ({ transport: { ackTimeout: 5_000 }, outbox: { sendTimeout: 5_500 } }))).toBe(
    'websocketTransport.ackTimeout',
  );
  const transport = () => websocketTransport({ receivers });
  expect(await refused(() => ({ outbox: { transports: { one: transport(), two: transport() }, route: 'one' } }))).toBe(
    'websocketTransport.receivers',
  );
  expect(await refused(() => ({ transport: { redis: 'http://x' } }))).toBe('websocketTransport.redis');
  await expect(receivers.connect('', undefined as never)).rejects.toThrow('receiver');
});
