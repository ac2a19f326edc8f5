// Chat messages of the reference application as its users run it: two processes on one database and one Redis, real HTTP,
// real sockets. What is pushed and when, what becomes of messages for somebody offline, and what is never pushed.
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { testRedisUrl } from '../support/redis.js';
import { type Answer, ask, launch, listening, type RunningApp } from '../support/reference-app.js';
import { waitUntil } from '../support/wait-until.js';
import { type ReceivedFrame, type TestClient, wsClient } from '../support/websocket-app.js';

let database: TestDatabase;
let env: Record<string, string>;
let app: RunningApp;
let other: RunningApp;
let clients: TestClient[] = [];

beforeAll(async () => {
  database = await createTestDatabase('reference_app_im');
  env = { DATABASE_URL: database.url, REDIS_URL: testRedisUrl(), MIGRATE: 'true', OUTBOX_BACKOFF_SECONDS: '0' };
  [app, other] = await Promise.all([listening(launch(env)), listening(launch(env))]);
});
afterEach(async () => {
  for (const client of clients) await client.close();
  clients = [];
});
afterAll(async () => {
  await Promise.all([app?.child.kill(), other?.child.kill()]);
  await database.drop();
});

async function online(userId: string, at: RunningApp, onFrame?: (frame: ReceivedFrame, answer: () => void) => void) {
  const client = await wsClient({ port: Number(new URL(at.url).port) }, userId, onFrame ? { onFrame } : {});
  clients.push(client);
  return client;
}

interface Posted {
  readonly id: string;
  readonly seqNo: number;
  readonly messageId: string;
}

const post = (message: object, at = app): Promise<Answer> =>
  ask(at, '/im/messages', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ senderId: 'sender', content: 'hello', ...message }),
  });

async function posted(message: object, at = app): Promise<Posted> {
  const answer = await post(message, at);
  expect(answer).toMatchObject({ status: 201, body: { seqNo: expect.any(Number) } });
  return answer.body as Posted;
}

const shown = async (id: string, at = app) => (await ask(at, `/im/messages/${id}`)).body as { delivery: unknown };

const delivered = (id: string, status: string, at = app) =>
  waitUntil(
    async () => {
      const { delivery } = await shown(id, at);
      return (delivery as { status: string }).status === status;
    },
    { what: `message ${id} is ${status}`, timeoutMs: 20_000 },
  );

const seqNosOf = (client: TestClient) => client.frames.map(({ seqNo }) => seqNo);

test('a message is pushed to its receiver on the other instance, and its delivery is seen', async () => {
  const client = await online('anna', other);
  const { id, messageId } = await posted({ conversationId: 'c-1', receiverId: 'anna', content: 'héllo 😀' });
  await waitUntil(() => client.frames.length > 0, { what: 'it is pushed', intervalMs: 1 });
  const payload = { id, conversationId: 'c-1', senderId: 'sender', content: 'héllo 😀' };
  expect(client.frames).toEqual([{ messageId, event: 'im.message', seqNo: 1, payload }]);
  await delivered(id, 'sent');
  expect(await shown(id, other)).toMatchObject({
    id,
    conversationId: 'c-1',
    seqNo: 1,
    senderId: 'sender',
    receiverId: 'anna',
    content: 'héllo 😀',
    delivery: { messageId, status: 'sent', attempts: 1, errorKind: null },
  });
});

test('what came while somebody was offline is all delivered when it connects, in order of seqNo, each once', async () => {
  const all: Posted[] = [];
  for (let n = 1; n <= 20; n++)
    all.push(await posted({ conversationId: 'c-2', receiverId: 'ben', content: `${n}` }, n % 2 ? app : other));
  await delivered(all[0]?.id ?? '', 'parked');
  const client = await online('ben', other);
  await delivered(all.at(-1)?.id ?? '', 'sent');
  // A client drops what it has seen; here nothing had to be.
  expect(client.frames.map(({ messageId }) => messageId)).toEqual(all.map(({ messageId }) => messageId));
  expect(seqNosOf(client)).toEqual(Array.from({ length: 20 }, (_, at) => at + 1));
});

test('of three receivers in a conversation the first is offline, and the others get theirs at once', async () => {
  const [carl, dora] = [await online('carl', app), await online('dora', other)];
  const toAnton = await posted({ conversationId: 'c-3', receiverId: 'anton' });
  await posted({ conversationId: 'c-3', receiverId: 'carl' });
  await posted({ conversationId: 'c-3', receiverId: 'dora' });
  await waitUntil(() => carl.frames.length + dora.frames.length === 2, { what: 'both have theirs' });
  expect([seqNosOf(carl), seqNosOf(dora)]).toEqual([[2], [3]]);
  await delivered(toAnton.id, 'parked');
  expect(await shown(toAnton.id)).toMatchObject({ delivery: { status: 'parked', attempts: 0, errorKind: 'offline' } });
});

test('blocked content is refused after it was written: nothing is stored, nothing is pushed, no number is used up', async () => {
  const client = await online('emil', app);
  await posted({ conversationId: 'c-4', receiverId: 'emil' });
  expect(await post({ conversationId: 'c-4', receiverId: 'emil', content: 'x [blocked] y' })).toMatchObject({
    status: 422,
  });
  await posted({ conversationId: 'c-4', receiverId: 'emil' });
  await waitUntil(() => client.frames.length === 2, { what: 'the other two are pushed' });
  expect(seqNosOf(client)).toEqual([1, 2]);
  const [row] = await database.query<{ n: number }>(
    "SELECT COUNT(*) AS n FROM im_message WHERE content LIKE '%blocked%'",
  );
  expect(row?.n).toBe(0);
  const [sent] = await database.query<{ n: number }>(
    "SELECT COUNT(*) AS n FROM outbox_message WHERE receiver = 'emil'",
  );
  expect(sent?.n).toBe(2);
});

test('posts to one conversation at the same time get numbers without gaps, and arrive in their order', async () => {
  const client = await online('frida', other);
  const all = await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      posted({ conversationId: 'c-5', receiverId: 'frida', content: `${n}` }, n % 2 ? app : other),
    ),
  );
  expect(all.map(({ seqNo }) => seqNo).sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
  await waitUntil(() => client.frames.length >= 40, { what: 'all are pushed' });
  expect(seqNosOf(client)).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
});

test('what is no message is answered 400 with what to write, and an unknown one 404', async () => {
  const answer = await post({ conversationId: '', receiverId: 'x', content: 7 });
  expect(answer).toMatchObject({ status: 400, body: { message: expect.any(Array) } });
  expect(JSON.stringify(answer.body)).toContain('conversationId: write 1 to 64 characters');
  expect(await ask(app, '/im/messages/999999')).toMatchObject({ status: 404 });
  expect(await ask(app, '/im/messages/x')).toMatchObject({ status: 404 });
});

test('a client that does not say who it is gets its socket closed', async () => {
  const client = await online('', app);
  expect((await client.closed) as unknown[]).toEqual([1008, expect.anything()]);
});
