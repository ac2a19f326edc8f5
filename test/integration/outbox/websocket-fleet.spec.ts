// The websocket transport on two instances with Redis between them: sockets elsewhere, Redis that goes away, stands still or
// loses a connection.
import { InvalidOptionsError, WebSocketReceivers, websocketTransport } from '../../../src/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { outboxCounts } from '../../support/outbox-app.js';
import type { PrivateServer } from '../../support/private-server.js';
import { startPrivateRedis } from '../../support/redis.js';
import { tcpSwitch } from '../../support/tcp-switch.js';
import { waitUntil } from '../../support/wait-until.js';
import {
  startWebSocketApp,
  type TestClient,
  type WebSocketApp,
  type WebSocketAppOptions,
  wsClient,
} from '../../support/websocket-app.js';

let database: TestDatabase;
let redis: PrivateServer;
let toClose: { close(): Promise<void> }[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('websocket_fleet'));
  redis = await startPrivateRedis();
});
afterEach(async () => {
  for (const one of toClose.reverse()) await one.close();
  toClose = [];
  for (const table of ['outbox_message', 'mailroom_receiver']) await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await redis.remove();
  await database.drop();
});

const kept = <T extends { close(): Promise<void> }>(one: T): T => {
  toClose.push(one);
  return one;
};

/** An instance; `relays: false` only enqueues, so that the other one has to send. */
const start = async ({
  relays,
  url = redis.url,
  ...options
}: WebSocketAppOptions & { relays: boolean; url?: string }): Promise<WebSocketApp> =>
  kept(
    await startWebSocketApp(database, {
      ...options,
      transport: { redis: url, heartbeat: 200, ackTimeout: 1_000, ...options.transport },
      outbox: { enabled: relays, sendTimeout: 4_000, parkRecheck: 600_000, ...options.outbox },
    }),
  );

const countsAre = (expected: Record<string, number>) =>
  waitUntil(async () => JSON.stringify(await outboxCounts(database)) === JSON.stringify(expected), {
    what: `the counts are ${JSON.stringify(expected)}`,
    timeoutMs: 20_000,
  });

const idsOf = (client: TestClient) => client.frames.map(({ messageId }) => messageId);
const message = (receiver: string, n = 1) => ({ topic: 't', receiver, payload: n });

test('a message finds its receiver on an instance that does not send, and nobody is offline', async () => {
  const [relay, door] = [await start({ relays: true }), await start({ relays: false })];
  const client = kept(await wsClient(door, 'u1'));
  await door.receivers.connect('u2', kept(await wsClient(relay, 'nobody')).socket);
  const ids = await relay.send([message('u1', 1), message('u1', 2)]);
  await countsAre({ sent: 2 });
  expect(idsOf(client)).toEqual(ids);
  expect(relay.events('parked', 'send-retrying')).toEqual([]);
});

test('somebody without a socket anywhere is offline at once, and woken by connecting to either instance', async () => {
  const [relay, door] = [await start({ relays: true }), await start({ relays: false })];
  const ids = await relay.send([message('u1'), message('u2')]);
  await countsAre({ parked: 2 });
  // The wake reaches the table; the relay of the other instance finds out with its poll.
  const clients = [kept(await wsClient(door, 'u1')), kept(await wsClient(relay, 'u2'))];
  await countsAre({ sent: 2 });
  expect(clients.map(idsOf)).toEqual([[ids[0]], [ids[1]]]);
});

test('a receiver is woken only when the other instances can find its socket', async () => {
  const [relay, door] = [await start({ relays: true }), await start({ relays: false })];
  await door.receivers.connect('first', kept(await wsClient(door, 'nobody')).socket);
  const woken = async () =>
    (await database.query<{ who: string }>('SELECT CONVERT(receiver USING utf8mb4) AS who FROM mailroom_receiver')).map(
      ({ who }) => who,
    );
  redis.pause();
  try {
    kept(await wsClient(door, 'u1'));
    // Wakes that begin after that of u1 could.
    for (let n = 0; n < 5; n++) await door.outbox.wakeReceiver(`later-${n}`);
    expect(await woken()).toContain('later-4');
    expect(await woken()).not.toContain('u1');
  } finally {
    redis.resume();
  }
  await waitUntil(async () => (await woken()).includes('u1'), { what: 'u1 is woken' });
  expect(relay.events('relay-failed')).toEqual([]);
});

test('a socket here that closes before it answers is told at once, also with the other instances asked', async () => {
  const relay = await start({ relays: true, transport: { ackTimeout: 2_500 } });
  const client: TestClient = kept(await wsClient(relay, 'u1', { onFrame: () => void client.close() }));
  await relay.send(message('u1'));
  await countsAre({ parked: 1 });
  expect(await relay.seen(1, 'send-retrying')).toMatchObject([{ attempt: 1, errorKind: 'socket-closed' }]);
});

test('a frame goes to all sockets of its receiver on both instances, and one acknowledgement is enough', async () => {
  const [relay, door] = [await start({ relays: true }), await start({ relays: false })];
  const silent = { onFrame: () => undefined };
  const mute = [kept(await wsClient(relay, 'u1', silent)), kept(await wsClient(door, 'u1', silent))];
  const answering = kept(await wsClient(door, 'u1'));
  const [id] = await relay.send(message('u1'));
  await countsAre({ sent: 1 });
  for (const client of [...mute, answering]) expect(idsOf(client)).toEqual([id]);
  // Those that did not answer are taken for dead.
  await Promise.all(mute.map(({ closed }) => closed));
  expect(answering.isOpen).toBe(true);
});

test('a socket of the other instance that closes before it answers counts an attempt, and the next finds it offline', async () => {
  const [relay, door] = [await start({ relays: true }), await start({ relays: false })];
  const client: TestClient = kept(await wsClient(door, 'u1', { onFrame: () => void client.close() }));
  await relay.send(message('u1'));
  await countsAre({ parked: 1 });
  expect(await relay.seen(1, 'send-retrying')).toMatchObject([{ attempt: 1, errorKind: 'socket-closed' }]);
});

test('an instance that gives no answer does not hold a send for longer than its bound', async () => {
  const relay = await start({ relays: true });
  // Somebody listens on the channel of the receiver and never answers, as a frozen instance does.
  const { Redis } = await import('ioredis');
  const frozen = new Redis(redis.url);
  await frozen.subscribe(`${database.name}:ws:receiver:u1`);
  await relay.send(message('u1'));
  await waitUntil(() => relay.events('send-retrying').length > 0, { what: 'the send is given up' });
  expect(relay.events('send-retrying')[0]).toMatchObject({ errorKind: 'unanswered' });
  frozen.disconnect();
  await countsAre({ parked: 1 });
});

test('without Redis an instance serves its own sockets and parks the rest without an attempt; when Redis is back all arrives', async () => {
  const [relay, door] = [await start({ relays: true }), await start({ relays: false })];
  const [here, there] = [kept(await wsClient(relay, 'here')), kept(await wsClient(door, 'there'))];
  await redis.stop();
  try {
    await relay.send([message('here'), message('there')]);
    await countsAre({ parked: 1, sent: 1 });
    expect([here.frames.length, there.frames.length]).toEqual([1, 0]);
    // Tried again soon: the instance of the socket may be the next to take it.
    const [row] = await database.query<{ attempts: number; wait: number }>(
      `SELECT attempts, TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(3), next_attempt_at) AS wait
         FROM outbox_message WHERE status = 'parked'`,
    );
    expect(row?.attempts).toBe(0);
    expect(Number(row?.wait)).toBeLessThanOrEqual(5);
  } finally {
    await redis.start();
  }
  // The instance of the socket wakes it once others can find it again.
  await countsAre({ sent: 2 });
  expect([here.frames.length, there.frames.length]).toEqual([1, 1]);
  expect(relay.events('transport-breaker', 'dead')).toEqual([]);
});

test('while Redis stands still sends settle, and local sockets are served', async () => {
  const [relay, door] = [
    await start({ relays: true }),
    await start({ relays: false, transport: { heartbeat: 60_000 } }),
  ];
  const [here, there] = [kept(await wsClient(relay, 'here')), kept(await wsClient(door, 'there'))];
  await waitUntil(async () => (await database.query('SELECT 1 FROM mailroom_receiver')).length === 2, {
    what: 'both are known to be there',
  });
  // The door notices nothing, so it is the relay that must make good what it did not know.
  redis.pause();
  try {
    await relay.send([message('here'), message('there')]);
    await countsAre({ parked: 1, sent: 1 });
    expect(here.frames).toHaveLength(1);
  } finally {
    redis.resume();
  }
  await countsAre({ sent: 2 });
  expect(new Set(idsOf(there)).size).toBe(1);
});

test('a subscription whose connection is dead without telling is noticed and made again', async () => {
  const cable = kept(await tcpSwitch(redis.port));
  const relay = await start({ relays: true });
  const door = await start({ relays: false, url: `redis://127.0.0.1:${cable.port}` });
  const client = kept(await wsClient(door, 'u1'));
  await relay.send(message('u1', 1));
  await countsAre({ sent: 1 });
  const other = kept(await tcpSwitch(redis.port));
  cable.cut();
  cable.pointTo(other.port);
  await relay.send(message('u1', 2));
  await waitUntil(() => client.frames.length === 2, { what: 'the second one arrives', timeoutMs: 20_000 });
  await countsAre({ sent: 2 });
});

test('an instance that others could not find wakes its receivers when they can again', async () => {
  const cable = kept(await tcpSwitch(redis.port));
  const relay = await start({ relays: true });
  const door = await start({ relays: false, url: `redis://127.0.0.1:${cable.port}` });
  const client = kept(await wsClient(door, 'u1'));
  cable.pointTo(1);
  cable.drop();
  await relay.send(message('u1'));
  // Redis says that nobody listens, so the relay takes the receiver for offline.
  await countsAre({ parked: 1 });
  cable.pointTo(redis.port);
  await countsAre({ sent: 1 });
  expect(client.frames).toHaveLength(1);
});

test('a connection to Redis that is killed is made again, and what came meanwhile is sent', async () => {
  const [relay, door] = [await start({ relays: true }), await start({ relays: false })];
  const client = kept(await wsClient(door, 'u1'));
  const { Redis } = await import('ioredis');
  const admin = new Redis(redis.url);
  await admin.client('KILL', 'TYPE', 'pubsub');
  await relay.send(message('u1'));
  await countsAre({ sent: 1 });
  expect(client.frames).toHaveLength(1);
  admin.disconnect();
});

test('a cluster is refused, since its nodes count their own subscribers only', async () => {
  const { Cluster } = await import('ioredis');
  const cluster = new Cluster([{ port: redis.port, host: '127.0.0.1' }], { lazyConnect: true });
  expect(() => websocketTransport({ receivers: new WebSocketReceivers(), redis: cluster })).toThrow(
    InvalidOptionsError,
  );
  cluster.disconnect();
});
