// Which outcomes are told in the log, and how. No server.
import { type MailroomEvent, MailroomEvents } from '../../../src/observability/index.js';
import { type LogOptions, OutcomeLog, resolveLogOptions } from '../../../src/observability/logging/index.js';

const facts = { id: '7', source: 'shop', type: 'paid', attempt: 1, traceId: 'trace-1', entity: 'order-1' };
const outgoing = {
  id: '8',
  messageId: 'm8',
  topic: 'reserve',
  key: 'order-1',
  receiver: null,
  attempt: 1,
  traceId: 'trace-1',
};

/** What is written for `events`, as [level, line]. */
function written(events: readonly MailroomEvent[], options: LogOptions = {}): [string, Record<string, unknown>][] {
  const lines: [string, Record<string, unknown>][] = [];
  const hub = new MailroomEvents();
  const write = (level: string) => (line: unknown) => void lines.push([level, line as Record<string, unknown>]);
  new OutcomeLog(hub, resolveLogOptions(options), { log: write('log'), warn: write('warn'), error: write('error') });
  for (const event of events) hub.emit(event);
  return lines;
}

const all = { sampleRate: 1 };
const nothing = { sampleRate: 0 };

test('a handled message is one line with its trace, message, entity, status, attempt and duration', () => {
  expect(written([{ name: 'succeeded', ...facts, durationMs: 12.3456, ageMs: null }], all)).toEqual([
    [
      'log',
      {
        msg: 'a message was handled',
        event: 'succeeded',
        traceId: 'trace-1',
        messageId: '7',
        source: 'shop',
        type: 'paid',
        entity: 'order-1',
        status: 'success',
        attempt: 1,
        durationMs: 12.3,
      },
    ],
  ]);
});

test.each<[string, MailroomEvent, Record<string, unknown>]>([
  [
    'warn',
    { name: 'retrying', ...facts, durationMs: 1, errorKind: 'away', delayMs: 30_000 },
    { status: 'pending', errorKind: 'away', retryInMs: 30_000 },
  ],
  ['error', { name: 'failed', ...facts, durationMs: 1, errorKind: 'away' }, { status: 'failed', errorKind: 'away' }],
  ['warn', { name: 'claim-lost', ...facts, reason: 'why' }, { reason: 'why' }],
  ['warn', { name: 'recovered', ...facts, status: 'pending' }, { status: 'pending' }],
  ['log', { name: 'released', ...facts }, { status: 'pending' }],
  [
    'warn',
    { name: 'send-retrying', ...outgoing, durationMs: 1, errorKind: 'away', delayMs: 5_000 },
    { status: 'pending', messageId: 'm8' },
  ],
  [
    'error',
    { name: 'dead', ...outgoing, durationMs: 1, errorKind: 'expired' },
    { status: 'dead', topic: 'reserve', errorKind: 'expired' },
  ],
  ['warn', { name: 'send-recovered', ...outgoing, status: 'failed' }, { status: 'dead' }],
  ['warn', { name: 'breaker', source: 'shop', type: 'paid', state: 'open' }, { state: 'open' }],
  ['warn', { name: 'intake-backlog', reason: 'depth', limit: 10, state: 'closed' }, { limit: 10 }],
])('trouble is always told: %s %j', (level, event, fields) => {
  expect(written([event], nothing)).toMatchObject([[level, { event: event.name, ...fields }]]);
});

test('of what goes well a share is told, 1 % by default: whole traces, the same ones everywhere', () => {
  const trace = (n: number): MailroomEvent[] => [
    { name: 'stored', ...facts, traceId: `t${n}`, durationMs: 1 },
    { name: 'succeeded', ...facts, traceId: `t${n}`, durationMs: 1, ageMs: null },
    { name: 'sent', ...outgoing, traceId: `t${n}`, durationMs: 1, ageMs: null },
  ];
  const events = Array.from({ length: 20_000 }, (_, n) => trace(n)).flat();
  const perTrace = new Map<unknown, number>();
  for (const [, { traceId }] of written(events)) perTrace.set(traceId, (perTrace.get(traceId) ?? 0) + 1);
  expect(perTrace.size).toBeGreaterThan(120);
  expect(perTrace.size).toBeLessThan(280);
  expect(new Set(perTrace.values())).toEqual(new Set([3]));
  expect(written(events)).toEqual(written(events));
  expect(written(events, nothing)).toEqual([]);
});

test('what takes a second is told always, as a warning; the limit is an option', () => {
  const succeeded: MailroomEvent = { name: 'succeeded', ...facts, durationMs: 1_000, ageMs: null };
  expect(written([succeeded], nothing)).toMatchObject([['warn', { durationMs: 1_000, slow: true }]]);
  expect(written([{ ...succeeded, durationMs: 999 }], nothing)).toEqual([]);
  expect(written([{ ...succeeded, durationMs: 20 }], { ...nothing, slow: '20ms' })).toHaveLength(1);
});

test('an entity that is a phone number is masked; a function of the application decides otherwise; false shows it', () => {
  const event: MailroomEvent = { name: 'failed', ...facts, entity: '13800138000', durationMs: 1, errorKind: 'away' };
  const entity = (options: LogOptions) => written([event], options)[0]?.[1].entity;
  expect(entity({})).toBe('*********00');
  expect(entity({ redact: () => 'hidden' })).toBe('hidden');
  expect(entity({ redact: false })).toBe('13800138000');
});

test.each([
  [{ sampleRate: 2 }, /log\.sampleRate.*1 or less/],
  [{ sampleRate: '0.1' }, /log\.sampleRate.*write a number/],
  [{ redact: true }, /log\.redact.*function/],
  [{ verbose: true }, /log.*verbose/],
])('%j is refused with what to write instead', (options, message) => {
  expect(() => resolveLogOptions(options as never)).toThrow(message);
});
