// Limits of the door and its caches as options: what each source gets, and what contradicts itself.
import { InvalidOptionsError } from '../../../src/errors/index.js';
import { sourceRules } from '../../../src/inbox/admission-options.js';
import { type InboxOptions, resolveInboxOptions } from '../../../src/inbox/inbox-options.js';
import type { SourceOptions } from '../../../src/inbox/source-options.js';

const given = (options: Partial<InboxOptions>, source: Partial<SourceOptions> = {}): InboxOptions => ({
  ...options,
  sources: { a: { type: 't', ...source }, b: { type: 't' } },
});
function rulesOf(intake: InboxOptions['intake'], source: Partial<SourceOptions> = {}) {
  const { sources, intake: resolved } = resolveInboxOptions(given({ intake: intake ?? {} }, source));
  return sourceRules(sources, resolved);
}

test('limits on rate and backlog are off until they are set', () => {
  const none = { rate: null, backlog: { messages: null, ageMs: null } };
  expect([...rulesOf({}).values()]).toEqual([none, none]);
});

test('what intake sets holds for every source, and a source may have its own or none', () => {
  const intake = { ratePerSecond: 2.5, maxBacklog: 100, maxBacklogAge: '10m' } as const;
  const rules = rulesOf(intake, { ratePerSecond: 50, rateBurst: 7, maxBacklog: false, maxBacklogAge: '1m' });
  expect(rules.get('a')).toEqual({ rate: { perSecond: 50, burst: 7 }, backlog: { messages: null, ageMs: 60_000 } });
  expect(rules.get('b')).toEqual({ rate: { perSecond: 2.5, burst: 3 }, backlog: { messages: 100, ageMs: 600_000 } });
  expect(rulesOf(intake, { ratePerSecond: false }).get('a')?.rate).toBeNull();
});

test('a burst of intake is not taken over by a source with a rate of its own', () => {
  const rules = rulesOf({ ratePerSecond: 10, rateBurst: 40 }, { ratePerSecond: 5 });
  expect([rules.get('a')?.rate, rules.get('b')?.rate]).toEqual([
    { perSecond: 5, burst: 5 },
    { perSecond: 10, burst: 40 },
  ]);
});

test.each<[string, Partial<InboxOptions>, Partial<SourceOptions>, RegExp]>([
  ['a burst without a rate', { intake: { rateBurst: 5 } }, {}, /^inbox\.intake\.rateBurst: /],
  ['a burst of a source without a rate', {}, { rateBurst: 5 }, /^inbox\.sources\.a\.rateBurst: /],
  ['a rate of zero', { intake: { ratePerSecond: 0 } }, {}, /^inbox\.intake\.ratePerSecond: .*write pushes per second/],
  ['a backlog of zero', {}, { maxBacklog: 0 }, /^inbox\.sources\.a\.maxBacklog: /],
  ['a door without a cache', { idempotency: { door: true } }, {}, /^inbox\.idempotency\.door: .*cache: 'lru'/],
  ['a cache that nothing uses', { idempotency: { cache: 'lru' } }, {}, /^inbox\.idempotency\.cache: .*door: true/],
  [
    'a Redis tier without a Redis',
    { idempotency: { cache: 'lru+redis', door: true } },
    {},
    /^inbox\.idempotency\.redis: .*redis:\/\/ URL/,
  ],
  [
    'a Redis that no tier uses',
    { idempotency: { cache: 'lru', door: true, redis: 'redis://:hunter2@host' } },
    {},
    /^inbox\.idempotency\.redis: (?!.*hunter2)/,
  ],
])('%s stops the start with its path and what to write', (_what, options, source, message) => {
  expect(() => resolveInboxOptions(given(options, source))).toThrow(InvalidOptionsError);
  expect(() => resolveInboxOptions(given(options, source))).toThrow(message);
});

test('the Redis of the leases serves the cache too, unless it has its own', () => {
  const lease = { backend: 'redis', redis: ['redis://a', 'redis://b'] } as const;
  const idempotency = { cache: 'lru+redis', door: true } as const;
  expect(resolveInboxOptions(given({ lease, idempotency })).idempotency.redis).toBe('redis://a');
  const own = { ...idempotency, redis: 'redis://c' };
  expect(resolveInboxOptions(given({ lease, idempotency: own })).idempotency.redis).toBe('redis://c');
});
