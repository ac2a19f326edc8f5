// Spans through the API of OpenTelemetry with its real SDK: an intake is a producer, a handler a consumer under it, a retry
// is linked, sends are under their message; without an SDK nothing changes. On a real database.
import { jest } from '@jest/globals';
import { context, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import {
  InMemorySpanExporter,
  NodeTracerProvider,
  type ReadableSpan,
  SimpleSpanProcessor,
} from '@opentelemetry/sdk-trace-node';
import {
  InboxBatchHandler,
  type InboxMessage,
  localTransport,
  OutboxHandler,
  type OutboxMessage,
  OutboxModule,
  OutboxService,
} from '../../../src/index.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { type InboxApp, type InboxAppOptions, startInboxApp } from '../../support/inbox-app.js';
import { notingTransport } from '../../support/outbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

const exporter = new InMemorySpanExporter();
const provider = new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
provider.register();

const database = await migrated(await createTestDatabase('spans'));
let app: InboxApp | undefined;
/** The active span of each handler, as [what, its span id]. */
const under: [string, string | undefined][] = [];
const transport = notingTransport();

const here = (what: string) => under.push([what, trace.getActiveSpan()?.spanContext().spanId]);

class Others {
  @OutboxHandler('reserve')
  reserve(_message: OutboxMessage) {
    here('reserve');
  }

  @InboxBatchHandler('batch', { source: 'test', size: 10 })
  batch(messages: readonly InboxMessage[]) {
    here(`batch of ${messages.length}`);
  }
}

async function start(mode: 'ordered' | 'competing', options: InboxAppOptions = {}): Promise<InboxApp> {
  app = await startInboxApp(database, {
    inbox: { mode },
    source: { allowDuplicates: true },
    imports: [
      OutboxModule.forRoot({
        transports: { local: localTransport(), away: transport },
        route: ({ topic }) => (topic === 'reserve' ? 'local' : 'away'),
        backoff: [0],
      }),
    ],
    providers: [Others],
    ...options,
  });
  return app;
}

afterEach(async () => {
  await app?.close();
  app = undefined;
  exporter.reset();
  under.length = 0;
  for (const table of ['inbox_message', 'outbox_message']) await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await provider.shutdown();
  trace.disable();
  context.disable();
  await database.drop();
});

const spans = (name: string) => exporter.getFinishedSpans().filter((span) => span.name === name);
const ended = async (name: string, count = 1): Promise<ReadableSpan[]> => {
  await waitUntil(() => spans(name).length >= count, { what: `${count} spans ${name}` });
  return spans(name);
};
const idOf = (span: ReadableSpan | Span | undefined) => span?.spanContext().spanId;
const traceIdOf = (span: ReadableSpan | undefined) => span?.spanContext().traceId;
const push = (type: string, headers = {}) =>
  app?.inbox.receive('test', { rawBody: JSON.stringify({ type }), headers }) as Promise<{ id: string }>;

const remote = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };
const traceparent = `00-${remote.traceId}-${remote.spanId}-01`;

describe.each(['ordered', 'competing'] as const)('in mode %s', (mode) => {
  test('a push, its handler and what it sends are one trace, each under the one before', async () => {
    const { inbox, app: nest } = await start(mode, {
      handlers: {
        paid: async (_message, ctx) => {
          here('paid');
          expect(ctx.traceId).toBe(remote.traceId);
          const outbox = nest.get(OutboxService);
          await outbox.enqueue(ctx.manager, [
            { topic: 'reserve', payload: 1 },
            { topic: 'ship', payload: 1 },
          ]);
        },
      },
    });
    const { id } = await push('paid', { traceparent, tracestate: 'vendor=1' });
    await inbox.runOnce();
    const [handled] = await ended('handle paid');
    await nest.get(OutboxService).runOnce();
    const [[stored], [reserved], [shipped]] = await Promise.all([
      ended('store test'),
      ended('handle reserve'),
      ended('send ship'),
    ]);

    expect([stored, handled, reserved, shipped].map((span) => [span?.kind, span?.parentSpanContext?.spanId])).toEqual([
      [SpanKind.PRODUCER, remote.spanId],
      [SpanKind.CONSUMER, idOf(stored)],
      [SpanKind.CONSUMER, idOf(handled)],
      [SpanKind.PRODUCER, idOf(handled)],
    ]);
    expect(new Set([stored, handled, reserved, shipped].map(traceIdOf))).toEqual(new Set([remote.traceId]));
    expect(stored?.spanContext().traceState?.serialize()).toBe('vendor=1');
    expect(under).toEqual([
      ['paid', idOf(handled)],
      ['reserve', idOf(reserved)],
    ]);
    expect(handled).toMatchObject({
      links: [],
      status: { code: SpanStatusCode.UNSET },
      attributes: {
        'messaging.system': 'mailroom',
        'messaging.destination.name': 'test',
        'messaging.message.id': id,
        'mailroom.attempt': 1,
        'mailroom.outcome': 'success',
      },
    });
    expect(shipped?.attributes).toMatchObject({ 'messaging.destination.name': 'away', 'mailroom.outcome': 'sent' });
    expect(transport.batches.at(-1)?.[0]?.headers.traceparent).toBe(`00-${remote.traceId}-${idOf(handled)}-01`);
  });

  test('an attempt that fails says how, without its text; its retry is in the same trace and linked with it', async () => {
    const { inbox } = await start(mode, {
      handlers: {
        fails: (_message, { attempt }) => {
          if (attempt === 1) throw Object.assign(new Error('phone 13800138000'), { code: 'away' });
        },
      },
    });
    await push('fails');
    await inbox.runOnce();
    await ended('handle fails');
    await waitUntil(
      async () => {
        await inbox.runOnce();
        return spans('handle fails').length === 2;
      },
      { what: 'it is tried again' },
    );
    const [[stored], [first, second]] = [spans('store test'), spans('handle fails')];
    expect(first).toMatchObject({
      status: { code: SpanStatusCode.ERROR, message: 'away' },
      attributes: { 'mailroom.outcome': 'retry', 'error.type': 'away', 'mailroom.attempt': 1 },
      events: [],
    });
    expect(second?.attributes).toMatchObject({ 'mailroom.outcome': 'success', 'mailroom.attempt': 2 });
    expect([first, second].map((span) => span?.parentSpanContext?.spanId)).toEqual([idOf(stored), idOf(stored)]);
    expect(second?.links.map((link) => link.context.spanId)).toEqual([idOf(first)]);
  });

  test('an attempt whose handler was in another process is linked with what it is about', async () => {
    const { inbox } = await start(mode, { handlers: { paid: () => undefined } });
    await push('paid');
    await database.query('UPDATE inbox_message SET attempts = 1');
    await inbox.runOnce();
    const [handled] = await ended('handle paid');
    expect(handled?.links.map((link) => link.context.spanId)).toEqual([idOf(spans('store test')[0])]);
  });

  test('a span is not over before the outcome is committed: one whose commit is refused is an error', async () => {
    const { inbox } = await start(mode, {
      handlers: {
        paid: async (_message, { manager, attempt }) => {
          // The transaction is ended behind our back, so there is nothing that could be committed.
          if (attempt === 1) await manager.query('ROLLBACK');
        },
      },
    });
    await push('paid');
    await inbox.runOnce();
    const [handled] = await ended('handle paid');
    expect(handled).toMatchObject({
      status: { code: SpanStatusCode.ERROR },
      attributes: { 'mailroom.outcome': 'retry' },
    });
  });

  test('what is handled together is one span with a link to each message', async () => {
    const { inbox } = await start(mode);
    for (let n = 0; n < 3; n++) await push('batch');
    await inbox.runOnce();
    const [handled] = await ended('handle batch');
    expect(spans('handle batch')).toHaveLength(1);
    expect(handled?.attributes).toMatchObject({ 'messaging.batch.message_count': 3, 'mailroom.outcome': 'success' });
    expect(handled?.parentSpanContext).toBeUndefined();
    expect(handled?.links.map((link) => link.context.spanId)).toEqual(spans('store test').map(idOf));
    expect(under).toEqual([['batch of 3', idOf(handled)]]);
  });
});

test('a push under a span of the application is under that span; a refused one is an error', async () => {
  await start('ordered', { source: { maxBodyBytes: 30 } });
  const tracer = trace.getTracer('application');
  await tracer.startActiveSpan('request', async (request) => {
    await push('paid', { traceparent });
    await expect(push('a type that is much too long for this body')).rejects.toMatchObject({ statusCode: 413 });
    request.end();
  });
  const [stored, refused] = spans('store test');
  const request = idOf(spans('request')[0]);
  expect([stored, refused].map((span) => span?.parentSpanContext?.spanId)).toEqual([request, request]);
  expect(refused).toMatchObject({ status: { code: SpanStatusCode.ERROR }, attributes: { 'error.type': 'too-large' } });
});

test('what is enqueued under a span of the application is in its trace', async () => {
  const { app: nest, dataSource } = await start('ordered');
  await trace.getTracer('application').startActiveSpan('request', async (request) => {
    await dataSource.transaction((manager) => nest.get(OutboxService).enqueue(manager, { topic: 'ship', payload: 1 }));
    request.end();
  });
  await nest.get(OutboxService).runOnce();
  const [shipped] = await ended('send ship');
  expect(shipped?.parentSpanContext?.spanId).toBe(idOf(spans('request')[0]));
});

test('execute() is a span that ends with its handler', async () => {
  const { inbox } = await start('ordered', {
    handlers: {
      now: () => {
        throw new Error('not today');
      },
    },
  });
  await expect(inbox.execute('test', { rawBody: '{"type":"now"}', headers: { traceparent } })).rejects.toThrow(
    'not today',
  );
  expect(spans('handle now')).toMatchObject([
    { parentSpanContext: { spanId: remote.spanId }, status: { code: SpanStatusCode.ERROR, message: 'Error' } },
  ]);
});

test('a span whose outcome is never told ends with the application', async () => {
  const { inbox, app: nest } = await start('ordered', { handlers: { paid: () => undefined } });
  const events = nest.get((await import('../../../src/index.js')).MailroomEvents);
  const emit = jest.spyOn(events, 'emit').mockImplementation(() => undefined);
  await push('paid');
  await inbox.runOnce();
  expect(spans('handle paid')).toEqual([]);
  emit.mockRestore();
  await app?.close();
  app = undefined;
  expect(spans('handle paid')).toMatchObject([{ status: { code: SpanStatusCode.ERROR, message: 'no-outcome' } }]);
});
