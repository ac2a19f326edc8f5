// Chat messages of the reference application over SIGKILL, and over a wake that is lost: real processes, real sockets, a client
// that drops what it has seen by the message id.
import { createConnection } from 'mysql2/promise';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { testRedisUrl } from '../../support/redis.js';
import { ask, launch, listening, type RunningApp } from '../../support/reference-app.js';
import { waitUntil } from '../../support/wait-until.js';
import { type ReceivedFrame, type TestClient, wsClient } from '../../support/websocket-app.js';

let database: TestDatabase;
let running: RunningApp[] = [];
let clients: TestClient[] = [];

beforeAll(async () => {
  database = await createTestDatabase('im_fault');
});
afterEach(async () => {
  for (const client of clients) await client.close();
  for (const { child } of running) await child.kill();
  clients = [];
  running = [];
});
afterAll(() => database.drop());

async function start(env: Record<string, string> = {}): Promise<RunningApp> {
  const app = await listening(
    launch({
      DATABASE_URL: database.url,
      REDIS_URL: testRedisUrl(),
      MIGRATE: 'true',
      INBOX_RECOVERY_INTERVAL_MS: '200',
      OUTBOX_BACKOFF_SECONDS: '0.1',
      OUTBOX_MAX_RETRY: '100',
      OUTBOX_SEND_TIMEOUT_MS: '2000',
      OUTBOX_CLAIM_TTL_MS: '2500',
      ...env,
    }),
  );
  running.push(app);
  return app;
}

async function online(userId: string, at: RunningApp, onFrame?: (frame: ReceivedFrame, answer: () => void) => void) {
  const client = await wsClient({ port: Number(new URL(at.url).port) }, userId, onFrame ? { onFrame } : {});
  clients.push(client);
  return client;
}

/** The message id of a stored message. @throws when it was not answered */
async function post(at: RunningApp, conversationId: string, receiverId: string): Promise<string> {
  const { status, body } = await ask(at, '/im/messages', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ conversationId, senderId: 's', receiverId, content: 'hello' }),
  });
  expect(status).toBe(201);
  return (body as { messageId: string }).messageId;
}

const unsent = async (): Promise<number> =>
  (await database.query<{ n: number }>("SELECT COUNT(*) AS n FROM outbox_message WHERE status <> 'sent'"))[0]?.n ?? -1;

const all = (what: string) =>
  waitUntil(async () => (await unsent()) === 0, { what: `${what} are sent`, timeoutMs: 60_000 });

test('a message that was committed but not pushed when its process was killed is delivered after the restart', async () => {
  const first = await start({ OUTBOX_ENABLED: 'false' });
  const gone = await online('anna', first);
  const ids = [await post(first, 'k-1', 'anna'), await post(first, 'k-1', 'anna')];
  await first.child.kill();
  await gone.closed;
  expect(gone.frames).toEqual([]);
  const client = await online('anna', await start());
  await all('both');
  expect(client.frames.map(({ messageId }) => messageId)).toEqual(ids);
});

test('a message that was pushed but not acknowledged when its process was killed comes again with its id', async () => {
  const first = await start();
  const gone = await online('ben', first, () => undefined);
  const id = await post(first, 'k-2', 'ben');
  await waitUntil(() => gone.frames.length === 1, { what: 'it is on its way' });
  await first.child.kill();
  const client = await online('ben', await start());
  await all('it');
  expect([...gone.frames, ...client.frames].map(({ messageId }) => messageId)).toEqual([id, id]);
});

test('over kills under traffic every acknowledged post arrives, in order of seqNo, once at a client that drops repetitions', async () => {
  const kills = Number(process.env.IM_KILLS ?? 3);
  const frames: ReceivedFrame[] = [];
  const acknowledged: string[] = [];
  for (let round = 0; round <= kills; round++) {
    const app = await start();
    const client = await online('carl', app, (frame, answer) => {
      frames.push(frame);
      answer();
    });
    let posts = 0;
    const posting = (async () => {
      for (; posts < 60; posts++) acknowledged.push(await post(app, 'k-3', 'carl'));
    })();
    if (round === kills) {
      await posting;
      await all('all');
    } else {
      posting.catch(() => undefined);
      await waitUntil(() => posts >= 20 + 10 * round, { what: 'traffic flows', intervalMs: 1 });
      await app.child.kill();
      await posting.catch(() => undefined);
      await client.closed;
    }
  }
  const [stored] = await database.query<{ n: number }>(
    "SELECT COUNT(*) AS n FROM im_message WHERE receiver_id = 'carl'",
  );
  const firsts = frames.filter(({ messageId }, at) => frames.findIndex((one) => one.messageId === messageId) === at);
  expect(firsts.map(({ seqNo }) => seqNo)).toEqual(Array.from({ length: stored?.n ?? 0 }, (_, at) => at + 1));
  expect(firsts.map(({ messageId }) => messageId)).toEqual(expect.arrayContaining(acknowledged));
  // One at a time is on its way to one receiver of one conversation.
  expect(frames.length - firsts.length).toBeLessThanOrEqual(kills);
});

test('a wake that is lost is made good by the re-check', async () => {
  const app = await start({ OUTBOX_PARK_RECHECK_MS: '1000' });
  const id = await post(app, 'k-4', 'dora');
  await waitUntil(
    async () => (await database.query("SELECT 1 FROM outbox_message WHERE status = 'parked'")).length === 1,
    { what: 'it is parked' },
  );
  // Whoever wakes the receiver waits for this lock and gives up.
  const blocker = await createConnection(database.url);
  await blocker.query('START TRANSACTION');
  await blocker.query("SELECT 1 FROM mailroom_receiver WHERE receiver = 'dora' FOR UPDATE");
  const client = await online('dora', app);
  await all('it');
  expect(client.frames.map(({ messageId }) => messageId)).toEqual([id]);
  await blocker.query('ROLLBACK');
  await blocker.end();
});
