// A trace from the push over its handler and the outbox to the last handler: what came along or was made is stored,
// handed on, and told by every event. In both modes, on a real database.
import {
  type AmbientMessage,
  currentMessage,
  localTransport,
  type MailroomEvent,
  MailroomEvents,
  type OutboxContext,
  OutboxHandler,
  type OutboxMessage,
  OutboxModule,
  OutboxService,
} from '../../../src/index.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

const database = await migrated(await createTestDatabase('trace'));
let app: InboxApp;

interface Seen {
  readonly where: string;
  readonly traceId: string;
  readonly ambient: AmbientMessage | undefined;
  readonly headers: Readonly<Record<string, string>>;
}
const seen: Seen[] = [];
const told: MailroomEvent[] = [];

class Warehouse {
  @OutboxHandler('reserve')
  reserve(message: OutboxMessage, ctx: OutboxContext) {
    seen.push({ where: 'outbox', traceId: ctx.traceId, ambient: currentMessage(), headers: message.headers });
  }
}

async function start(mode: 'ordered' | 'competing'): Promise<void> {
  app = await startInboxApp(database, {
    inbox: { mode },
    source: { allowDuplicates: true },
    imports: [OutboxModule.forRoot({ transports: { local: localTransport() } })],
    providers: [Warehouse],
    handlers: {
      paid: async (message, ctx) => {
        seen.push({ where: 'inbox', traceId: ctx.traceId, ambient: currentMessage(), headers: message.headers });
        await app.app.get(OutboxService).enqueue(ctx.manager, { topic: 'reserve', key: 'order-1', payload: 1 });
      },
    },
  });
  const events = app.app.get(MailroomEvents);
  for (const name of ['stored', 'succeeded', 'sent', 'recovered'] as const)
    events.on(name, (event) => told.push(event));
}

afterEach(async () => {
  await app.close();
  seen.length = 0;
  told.length = 0;
  for (const table of ['inbox_message', 'outbox_message']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

const w3c = '4bf92f3577b34da6a3ce929d0e0e4736';
const traceparent = `00-${w3c}-00f067aa0ba902b7-01`;

describe.each(['ordered', 'competing'] as const)('in mode %s', (mode) => {
  test.each<[string, Record<string, string>, string | RegExp]>([
    ['a traceparent', { traceparent, tracestate: 'vendor=1', 'x-request-id': 'r1' }, w3c],
    ['a request id alone', { 'x-request-id': 'r1' }, 'r1'],
    ['nothing', {}, /^[0-9a-f]{32}$/],
  ])('a push with %s is one trace, from its row to the last handler', async (_what, headers, expected) => {
    await start(mode);
    await app.inbox.receive('test', { rawBody: '{"type":"paid","entity":"e1"}', headers });
    const [row] = await database.query<{ headers: string }>(
      'SELECT CAST(headers AS CHAR) AS headers FROM inbox_message',
    );
    const stored = JSON.parse(row?.headers ?? 'null') as Record<string, string>;
    await app.inbox.runOnce();
    await app.app.get(OutboxService).runOnce();
    await waitUntil(() => told.length === 3, { what: 'stored, handled and sent are told' });

    const traceId = seen[0]?.traceId ?? '';
    expect(traceId).toEqual(typeof expected === 'string' ? expected : expect.stringMatching(expected));
    if (Object.keys(headers).length > 0) expect(stored).toEqual(headers);
    else expect(stored.traceparent).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
    expect(seen).toMatchObject([
      { where: 'inbox', traceId, ambient: { traceId }, headers: stored },
      { where: 'outbox', traceId, ambient: { traceId }, headers: stored },
    ]);
    expect(told).toMatchObject([
      { name: 'stored', traceId, entity: 'e1' },
      { name: 'succeeded', traceId, entity: 'e1', attempt: 1 },
      { name: 'sent', traceId, key: 'order-1', receiver: null, messageId: seen[1]?.ambient?.messageId },
    ]);
  });

  test('recovery tells the trace and the entity of an orphan', async () => {
    await start(mode);
    await app.inbox.receive('test', { rawBody: '{"type":"paid","entity":"e1"}', headers: { traceparent } });
    await database.query(
      "UPDATE inbox_message SET status = 'processing', attempts = 1, claimed_until = UTC_TIMESTAMP(3) - INTERVAL 1 SECOND",
    );
    await app.inbox.recoverOnce();
    expect(told.filter(({ name }) => name === 'recovered')).toMatchObject([
      { traceId: w3c, entity: 'e1', attempt: 1, status: 'pending' },
    ]);
  });
});

test('two messages of one split push have one trace', async () => {
  app = await startInboxApp(database, {
    source: { split: (push) => push.json, type: (_push, item) => (item as { type: string }).type },
  });
  app.app.get(MailroomEvents).on('stored', (event) => told.push(event));
  await app.inbox.receive('test', { rawBody: '[{"type":"a"},{"type":"b"}]' });
  const [first, second] = told as Extract<MailroomEvent, { name: 'stored' }>[];
  expect(first?.traceId).toMatch(/^[0-9a-f]{32}$/);
  expect(second?.traceId).toBe(first?.traceId);
});
