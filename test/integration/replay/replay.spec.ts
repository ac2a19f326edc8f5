import type { INestApplication } from '@nestjs/common';
import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  Injectable,
  UnauthorizedException,
} from '@nestjs/common';
import { ScheduleModule } from '@nestjs/schedule';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import {
  InboxHandler,
  type InboxMessage,
  InboxModule,
  InboxService,
  InvalidOptionsError,
  InvalidSelectionError,
  OverlappingRunError,
  PermanentFailureError,
  ReplayModule,
  ReplayService,
} from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { opened } from '../../support/open-resources.js';
import { waitUntil } from '../../support/wait-until.js';

@Injectable()
class TokenGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const { authorization } = context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers;
    if (authorization === undefined) throw new UnauthorizedException();
    if (authorization !== 'Bearer admin') throw new ForbiddenException();
    return true;
  }
}

let broken = true;
let handled: unknown[] = [];

class Handlers {
  @InboxHandler('work', { source: 'test' })
  work({ json }: InboxMessage<{ n: number }>): void {
    if (broken) throw new PermanentFailureError('the database of the shop is away', { kind: 'shop-away' });
    handled.push(json.n);
  }
}

let database: TestDatabase;
let app: INestApplication;
let replay: ReplayService;
let inbox: InboxService;
let url: string;
let closed: () => void;
const audit = { actor: 'ann', reason: 'the shop is back', ratePerSecond: 10_000 };

beforeAll(async () => {
  database = await migrated(await createTestDatabase('replay'));
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      ScheduleModule.forRoot(),
      InboxModule.forRoot({
        breaker: false,
        shutdown: { readinessDelay: 0, deadline: '5s' },
        sources: {
          test: {
            type: 'work',
            dedupKey: (push) => push.json.id,
            entityKey: (push) => push.json.entity ?? null,
          },
        },
      }),
      ReplayModule.forRoot({
        pollInterval: 50,
        maxReplays: 2,
        http: { path: 'admin/replay', guard: TokenGuard, actor: () => 'http-ann' },
      }),
    ],
    providers: [Handlers, TokenGuard],
  }).compile();
  app = module.createNestApplication({ logger: false });
  closed = opened({ what: 'an application with replay', close: () => app.close() });
  await app.listen(0, '127.0.0.1');
  url = await app.getUrl();
  replay = app.get(ReplayService);
  inbox = app.get(InboxService);
});
beforeEach(() => {
  broken = true;
  handled = [];
});
afterEach(async () => {
  for (const table of ['inbox_message', 'inbox_message_archive', 'replay_run', 'replay_item'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await app.close();
  closed();
  await database.drop();
});

async function failed(count: number, entity?: string): Promise<string[]> {
  const ids: string[] = [];
  for (let n = 0; n < count; n++) {
    const receipt = await inbox.receive('test', { rawBody: JSON.stringify({ id: `m${n}`, n, entity }) });
    ids.push(String((receipt as { id: string }).id));
  }
  await drainInbox(inbox);
  return ids;
}

const ended = (id: string) =>
  waitUntil(async () => ['done', 'cancelled'].includes((await replay.get(id))?.state ?? ''), {
    what: `run ${id} ends`,
  });

test('failed messages are handled again, in order, with a record and a history; a second press does nothing', async () => {
  const [first] = await failed(20, 'e');
  broken = false;
  expect(await replay.preview({ type: 'work' })).toMatchObject({
    count: 20,
    more: false,
    groups: [{ type: 'work', errorKind: 'shop-away', count: 20, example: first }],
  });
  const run = await replay.start({ type: 'work', errorKind: 'shop-away' }, audit);
  await ended(run.id);
  expect(await replay.get(run.id)).toMatchObject({
    state: 'done',
    selected: 20,
    requeued: 20,
    skipped: 0,
    actor: 'ann',
  });
  await drainInbox(inbox);
  expect(handled).toEqual(Array.from({ length: 20 }, (_, n) => n));
  const again = await replay.start({ type: 'work', all: true }, audit);
  await ended(again.id);
  expect(await replay.get(again.id)).toMatchObject({ selected: 0, requeued: 0 });
  expect(await replay.items(run.id, { limit: 3 })).toMatchObject([
    { messageId: first, outcome: 'requeued' },
    { outcome: 'requeued' },
    { outcome: 'requeued' },
  ]);
  const view = await replay.message(first ?? '');
  expect(view).toMatchObject({ status: 'success', replays: 1, key: 'e', errorKind: null });
  expect(view?.history).toMatchObject([{ runId: run.id, attempts: 1, errorKind: 'shop-away' }]);
});

test('a message that was replayed too often is refused, each life is archived, and what has changed is skipped', async () => {
  const [id] = await failed(1);
  for (let n = 0; n < 2; n++) {
    await ended((await replay.start({ ids: [id ?? ''] }, audit)).id);
    await drainInbox(inbox);
  }
  const third = await replay.start({ ids: [id ?? ''] }, audit);
  await ended(third.id);
  expect(await replay.get(third.id)).toMatchObject({ requeued: 0, refused: 1 });
  expect(await replay.items(third.id)).toMatchObject([{ outcome: 'refused', detail: 'it was replayed 2 times' }]);
  expect((await replay.message(id ?? ''))?.history).toHaveLength(2);
});

test('a message that is not failed any more when its turn comes is skipped', async () => {
  const [id] = await failed(2);
  const run = await replay.start({ all: true }, { ...audit, ratePerSecond: 0.2 });
  await database.query("UPDATE inbox_message SET status = 'pending' WHERE id = ?", [id]);
  await database.query('UPDATE replay_run SET rate_per_second = 1000 WHERE id = ?', [run.id]);
  await replay.cancel(run.id);
  await replay.resume(run.id);
  await ended(run.id);
  expect(await replay.get(run.id)).toMatchObject({ requeued: 1, skipped: 1, state: 'done' });
  expect((await replay.items(run.id))[0]).toMatchObject({ outcome: 'skipped', detail: 'its status is pending' });
});

test('a run keeps to its rate, is cancelled in the middle, and goes on where it stopped', async () => {
  await failed(30);
  const run = await replay.start({ all: true }, { ...audit, ratePerSecond: 20 });
  await waitUntil(async () => ((await replay.get(run.id))?.requeued ?? 0) > 0, { what: 'it has begun' });
  expect(await replay.cancel(run.id)).toBe(true);
  expect(await replay.cancel(run.id)).toBe(false);
  const stopped = await replay.get(run.id);
  expect(stopped?.state).toBe('cancelled');
  expect(stopped?.requeued).toBeLessThan(30);
  await database.query('UPDATE replay_run SET rate_per_second = 1000 WHERE id = ?', [run.id]);
  expect(await replay.resume(run.id)).toBe(true);
  await ended(run.id);
  expect(await replay.get(run.id)).toMatchObject({ state: 'done', selected: 30, requeued: 30, skipped: 0 });
  expect(await database.query('SELECT DISTINCT replay_count AS n FROM inbox_message')).toEqual([{ n: 1 }]);
});

test('of two overlapping runs that start at the same moment one is refused with the id of the other', async () => {
  await failed(5);
  const results = await Promise.allSettled(
    [1, 2].map(() => replay.start({ all: true }, { ...audit, ratePerSecond: 0.1 })),
  );
  const run = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []));
  expect(run).toHaveLength(1);
  expect(refused[0]).toBeInstanceOf(OverlappingRunError);
  expect(refused[0]).toMatchObject({ runId: run[0]?.id });
  await replay.cancel(run[0]?.id ?? '');
});

test('a message that fails after the start of a run is not swept in', async () => {
  await failed(2);
  const run = await replay.start({ all: true }, { ...audit, ratePerSecond: 0.1 });
  await inbox.receive('test', { rawBody: '{"id":"late","n":99}' });
  await drainInbox(inbox);
  expect((await replay.get(run.id))?.selected).toBe(2);
  expect(await replay.items(run.id)).toHaveLength(2);
  await replay.cancel(run.id);
});

test('a replayed message is not swallowed by its dedup key, and a push of the same key stays a duplicate', async () => {
  const [id] = await failed(1);
  broken = false;
  await ended((await replay.start({ all: true }, audit)).id);
  expect(await inbox.receive('test', { rawBody: '{"id":"m0","n":0}' })).toMatchObject({ id, duplicate: true });
  await drainInbox(inbox);
  expect(handled).toEqual([0]);
});

test('discard takes messages out, into the archive', async () => {
  await failed(3);
  const run = await replay.discard({ all: true }, { actor: 'ann', reason: 'test data', ratePerSecond: 1_000 });
  await ended(run.id);
  expect(await replay.get(run.id)).toMatchObject({ action: 'discard', discarded: 3 });
  expect(await database.query('SELECT id FROM inbox_message')).toEqual([]);
  expect(await database.query('SELECT DISTINCT reason FROM inbox_message_archive')).toEqual([
    { reason: 'discard: test data' },
  ]);
});

describe('over HTTP', () => {
  const call = async (path: string, init: RequestInit = {}, token: string | null = 'admin') => {
    const response = await fetch(`${url}/admin/replay/${path}`, {
      ...init,
      headers: { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) },
    });
    return { status: response.status, body: (await response.json()) as never };
  };

  test('without a token 401, with a wrong one 403', async () => {
    expect((await call('runs', {}, null)).status).toBe(401);
    expect((await call('runs', {}, 'guest')).status).toBe(403);
    expect((await call('runs', { method: 'POST', body: '{}' }, null)).status).toBe(401);
  });

  test('preview, start, watch, list', async () => {
    const [id] = await failed(3);
    broken = false;
    expect(await call('preview', { method: 'POST', body: '{"type":"work"}' })).toMatchObject({
      status: 200,
      body: { count: 3 },
    });
    const body = JSON.stringify({
      selection: { type: 'work' },
      reason: 'fixed',
      ratePerSecond: 1_000,
      actor: 'mallory',
    });
    const started = await call('runs', { method: 'POST', body });
    expect(started).toMatchObject({ status: 202, body: { actor: 'http-ann', reason: 'fixed', selected: 3 } });
    const { id: run } = started.body as { id: string };
    await ended(run);
    expect(await call(`runs/${run}`)).toMatchObject({ status: 200, body: { state: 'done', requeued: 3 } });
    expect(await call(`runs/${run}/items?limit=1`)).toMatchObject({ body: [{ messageId: id, outcome: 'requeued' }] });
    expect(await call('runs')).toMatchObject({ body: [{ id: run }] });
    expect((await call('runs/999999')).status).toBe(404);
  });

  test('pages are stable while rows change, and their size is bounded', async () => {
    const ids = await failed(5);
    const first = (await call('messages?limit=2')).body as { id: string }[];
    await database.query('DELETE FROM inbox_message WHERE id = ?', [ids[0]]);
    const second = (await call(`messages?limit=2&after=${first.at(-1)?.id}`)).body as { id: string }[];
    expect([...first, ...second].map(({ id }) => id)).toEqual(ids.slice(0, 4));
    expect((await call('messages?limit=100000')).status).toBe(400);
    expect((await call('messages?errorKind=none')).body).toEqual([]);
  });

  test('long numbers in a body are masked', async () => {
    const receipt = await inbox.receive('test', { rawBody: '{"id":"p","n":1,"phone":"138 0013 8000"}' });
    const shown = await call(`messages/${(receipt as { id: string }).id}`);
    expect(shown.body).toMatchObject({ body: '{"id":"p","n":1,"phone":"*** **** **00"}' });
  });

  test.each(["x' OR '1'='1", '1); DROP TABLE inbox_message; --', '\\', '%', '{"$ne":1}', 'a'.repeat(600), '\u0000'])(
    'what is injected is harmless: %j',
    async (text) => {
      await failed(1);
      const every =
        'key errorKind errorContains status ids receivedFrom receivedTo failedFrom failedTo attemptsAtLeast';
      const filters = `${every} source type box after limit`.split(' ').map((name) => [name, 'inbox'] as const);
      const others = `${every} topic receiver subject`.split(' ').map((name) => [name, 'outbox'] as const);
      for (const [name, box] of [...filters, ...others]) {
        const { status, body } = await call(`messages?box=${box}&${name}=${encodeURIComponent(text)}`);
        expect([name, status === 200 ? body : status]).toEqual([name, status === 200 ? [] : 400]);
        const asked = await call('preview', { method: 'POST', body: JSON.stringify({ box, [name]: text }) });
        expect([name, asked.status === 200 ? asked.body : asked.status]).toEqual([
          name,
          asked.status === 200 ? expect.objectContaining({ count: 0 }) : 400,
        ]);
      }
      for (const path of ['runs?before=', 'runs?box=', 'runs/1/items?after=', 'messages/', 'runs/'])
        expect([path, (await call(path + encodeURIComponent(text))).status]).toEqual([path, 400]);
      expect(await database.query('SELECT COUNT(*) AS n FROM inbox_message')).toEqual([{ n: 1 }]);
    },
  );

  test.each([
    ['a filter that is an object', { selection: { type: { $ne: 1 } }, reason: 'r' }],
    ['a filter that is a list', { selection: { type: ['a', 'b'] }, reason: 'r' }],
    ['a filter that is not there', { selection: { typ: 'a' }, reason: 'r' }],
    ['an empty selection', { selection: {}, reason: 'r' }],
    ['all that is text', { selection: { all: 'true' }, reason: 'r' }],
    ['a selection of prototypes', { selection: JSON.parse('{"__proto__":{"all":true},"constructor":1}'), reason: 'r' }],
    ['no reason', { selection: { all: true } }],
    ['a reason of blanks', { selection: { all: true }, reason: '  ' }],
    ['a rate that is text', { selection: { all: true }, reason: 'r', ratePerSecond: '1000' }],
    ['a rate of 0', { selection: { all: true }, reason: 'r', ratePerSecond: 0 }],
    ['an order that is text', { selection: { all: true }, reason: 'r', keepOrder: 'false' }],
    ['an option that is mistyped', { selection: { all: true }, reason: 'r', ratePerSec: 1 }],
    ['an action that is none', { selection: { all: true }, reason: 'r', action: 'delete' }],
    ['an edit that is no run', { selection: { all: true }, reason: 'r', action: 'edit' }],
    ['no object', [1]],
  ])('%s is a 400, and no run is recorded', async (_what, body) => {
    await failed(1);
    expect((await call('runs', { method: 'POST', body: JSON.stringify(body) })).status).toBe(400);
    expect(await database.query('SELECT id FROM replay_run')).toEqual([]);
  });

  test('a query word that comes twice, or with brackets, is a 400', async () => {
    expect((await call('messages?type=a&type=b')).status).toBe(400);
    expect((await call('messages?type[a]=b')).status).toBe(400);
  });
});

test('without a guard the module is refused', () => {
  expect(() => ReplayModule.forRoot({ http: { path: 'admin/replay' } as never })).toThrow(InvalidOptionsError);
  expect(() => ReplayModule.forRoot({ http: { path: 'admin/replay' } as never })).toThrow(/^replay\.http\.guard: /);
});

test('an empty selection and an unknown box are refused', async () => {
  await expect(replay.start({}, audit)).rejects.toThrow(InvalidSelectionError);
  expect(() => replay.preview({ box: 'x' as never, all: true })).toThrow(/^box: /);
});
