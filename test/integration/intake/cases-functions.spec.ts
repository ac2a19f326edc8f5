// C123: functions of a source that throw, reject or never answer cost their own push an answer within its time, and nothing
// else: no row, no unhandled rejection, no place that stays taken. Over HTTP, on a real database.
import type { AddressInfo } from 'node:net';
import type { SourceOptions } from '../../../src/index.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

const database = await migrated(await createTestDatabase('functions'));
let app: InboxApp | undefined;
const unhandled: unknown[] = [];
const note = (reason: unknown) => void unhandled.push(reason);

beforeAll(() => void process.on('unhandledRejection', note));
beforeEach(() => database.query('DELETE FROM inbox_message'));
afterEach(async () => {
  await app?.close();
  app = undefined;
});
afterAll(async () => {
  process.off('unhandledRejection', note);
  await database.drop();
});

async function start(source: Partial<SourceOptions>): Promise<() => Promise<number>> {
  app = await startInboxApp(database, {
    source: { path: 'in', ...source },
    inbox: { intake: { ackTimeout: 300, maxInFlight: 1 } },
  });
  await app.app.listen(0, '127.0.0.1');
  const { port } = app.app.getHttpServer().address() as AddressInfo;
  return async () => {
    const headers = { connection: 'close' };
    const answer = await fetch(`http://127.0.0.1:${port}/in`, { method: 'POST', body: '{"type":"t"}', headers });
    await answer.text();
    return answer.status;
  };
}

const rows = async () => (await database.query<{ n: number }>('SELECT COUNT(*) AS n FROM inbox_message'))[0]?.n;
const fails = () => {
  throw new Error('it throws');
};
const rejects = async () => fails();
const never = () => new Promise<never>(() => undefined);
const verifier = (verify: () => unknown) => ({ verify: { name: 'own', verify } }) as unknown as Partial<SourceOptions>;

test.each<[string, Partial<SourceOptions>, number]>([
  ['a verifier that throws', verifier(fails), 503],
  ['a verifier that rejects', verifier(rejects), 503],
  ['a verifier that never answers', verifier(never), 503],
  ['a key that cannot be read', { dedupKey: fails }, 400],
  ['a type that cannot be read', { type: fails }, 400],
  ...(['accept', 'type', 'dedupKey', 'entityKey', 'sequence', 'split'] as const).flatMap(
    (option): [string, Partial<SourceOptions>, number][] => [
      [`${option} that is asynchronous and rejects`, { [option]: rejects } as never, 503],
      [`${option} that is asynchronous and never answers`, { [option]: never } as never, 503],
    ],
  ),
])('C123 %s', async (_what, source, status) => {
  const push = await start(source);
  // The second one finds the only place free again.
  expect([await push(), await push()]).toEqual([status, status]);
  // A rejection that nobody took would have been told by now.
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
  expect(await rows()).toBe(0);
});

test('C123 a verifier that answers too late stores nothing: the sender was told to push again', async () => {
  let answer: (() => void) | undefined;
  const late = new Promise((resolve) => {
    answer = () => resolve({ valid: true });
  });
  let checks = 0;
  const push = await start(verifier(() => (++checks > 1 ? { valid: true } : late)));
  expect(await push()).toBe(503);
  answer?.();
  expect(await push()).toBe(200);
  await waitUntil(async () => (await rows()) === 1, { what: 'the second push is stored' });
  await app?.close();
  app = undefined;
  expect(await rows()).toBe(1);
});

test('C123 respond that is asynchronous and rejects: the row is committed, so its receipt is the answer', async () => {
  const push = await start({ respond: rejects as never });
  expect(await push()).toBe(200);
  await new Promise((resolve) => setImmediate(resolve));
  expect(unhandled).toEqual([]);
  expect(await rows()).toBe(1);
});
