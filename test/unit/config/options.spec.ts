// What may be written as an option, and what a wrong one says.

import { parseDuration } from '../../../src/config/index.js';
import { resolveInboxOptions } from '../../../src/inbox/inbox-options.js';
import { type InboxOptions, InvalidOptionsError } from '../../../src/index.js';

const source = { type: 'a' };
const given = (options: Record<string, unknown>) => ({ sources: { s: source }, ...options }) as unknown as InboxOptions;

describe('durations', () => {
  test.each([
    [0, 0],
    [1500, 1500],
    ['250ms', 250],
    ['30s', 30_000],
    ['1.5m', 90_000],
    [' 2h ', 7_200_000],
    ['7d', 604_800_000],
  ])('%j is %d ms', (value, ms) => expect(parseDuration(value, 'p')).toBe(ms));

  test.each(['', '30', '30 sec', 's', '-1s', '1e3s', 'Infinity', Number.NaN, -1, Number.POSITIVE_INFINITY])(
    '%j is refused',
    (value) => expect(() => parseDuration(value, 'inbox.tick')).toThrow(InvalidOptionsError),
  );

  test.each([null, undefined, {}, [], true, 10n])('%p is refused, whatever the types say', (value) =>
    expect(() => parseDuration(value as unknown as number, 'inbox.tick')).toThrow(/^inbox\.tick: /),
  );
});

test('without options the defaults of the docs hold', () => {
  const options = resolveInboxOptions(given({}));
  expect(options).toMatchObject({
    enabled: false,
    tick: 1_000,
    roundInterval: 2_000,
    continuous: true,
    batchSize: 50,
    lanes: 1,
    maxRetry: 3,
    handlerTimeout: 60_000,
    timeoutsPerRound: 3,
    orphanAfter: 300_000,
    recoveryInterval: 30_000,
    controlPool: 4,
    intake: { ackTimeout: 2_000, maxBodyBytes: 1_048_576, maxInFlight: 1_000 },
    shutdown: { readinessDelay: 5_000, deadline: 25_000 },
    lease: { backend: 'database', ttl: 30_000, renew: 10_000, redis: [] },
  });
  expect([1, 2, 3, 4, 9].map(options.backoff)).toEqual([30_000, 120_000, 600_000, 600_000, 600_000]);
});

test.each([
  [{}, 4],
  [{ lanes: 8 }, 8],
  [{ lanes: 100 }, 16],
  [{ lanes: 8, controlPool: 3 }, 3],
])('lanes have a connection each for their outcomes, up to 16, unless told: %j', (more, size) => {
  expect(resolveInboxOptions(given(more)).controlPool).toBe(size);
});

test.each<[string, Record<string, unknown>, RegExp]>([
  [
    'a source named __proto__',
    { sources: JSON.parse('{"__proto__":{"type":"a"},"s":{"type":"a"}}') },
    /^inbox\.sources\.__proto__: /,
  ],
  ['a path that climbs', { sources: { s: { ...source, path: 'a/../b' } } }, /^inbox\.sources\.s\.path: /],
  [
    'a Redis URL of another protocol',
    { lease: { backend: 'redis', redis: 'http://localhost' } },
    /^inbox\.lease\.redis: /,
  ],
  ['an unknown option', { enabeld: true }, /^inbox\.enabeld: .*does not exist/],
  ['an unknown nested option', { lease: { tll: 1 } }, /^inbox\.lease\.tll: /],
  ['an unknown option of a source', { sources: { s: { type: 'a', dedup: 1 } } }, /^inbox\.sources\.s\.dedup: /],
  ['false as text', { enabled: 'false' }, /^inbox\.enabled: got "false"; write true or false/],
  ['a number as text', { batchSize: '50' }, /^inbox\.batchSize: /],
  ['a fraction', { lanes: 1.5 }, /^inbox\.lanes: /],
  ['no sources', { sources: undefined }, /^inbox\.sources: /],
  ['a source without type', { sources: { s: {} } }, /^inbox\.sources\.s\.type: /],
  ['a source name with a blank', { sources: { 'a b': source } }, /^inbox\.sources\.a b: /],
  ['a path with a parameter', { sources: { s: { ...source, path: 'a/:id' } } }, /^inbox\.sources\.s\.path: /],
  [
    'the same path twice',
    { sources: { s: { ...source, path: 'a' }, t: { ...source, path: '/a/' } } },
    /^inbox\.sources\.t\.path: .*source s/,
  ],
  ['a verifier that is none', { sources: { s: { ...source, verify: () => true } } }, /^inbox\.sources\.s\.verify: /],
  ['a sequence without entity', { sources: { s: { ...source, sequence: () => 1 } } }, /^inbox\.sources\.s\.sequence: /],
  [
    'park without order',
    { sources: { s: { ...source, order: 'skip', onFailure: 'park' } } },
    /^inbox\.sources\.s\.onFailure: /,
  ],
  ['redis without a client', { lease: { backend: 'redis' } }, /^inbox\.lease\.redis: /],
  ['a client without redis', { lease: { redis: 'redis://localhost' } }, /^inbox\.lease\.backend: /],
  ['a renewal too seldom', { lease: { ttl: '10s', renew: '5s' } }, /^inbox\.lease\.renew: /],
  [
    'competing without a dedup key',
    { mode: 'competing', sources: { a: { type: 't' } } },
    /^inbox\.sources\.a\.dedupKey: .*allowDuplicates: true/,
  ],
  [
    'competing with parked entities',
    { mode: 'competing', sources: { a: { type: 't', allowDuplicates: true, onFailure: 'park' } } },
    /^inbox\.sources\.a\.onFailure: /,
  ],
  ['an unknown mode', { mode: 'fast' }, /^inbox\.mode: .*'ordered' or 'competing'/],
  ['orphanAfter below the timeout', { handlerTimeout: '5m', orphanAfter: '5m' }, /^inbox\.orphanAfter: /],
  ['a delay beyond the deadline', { shutdown: { readinessDelay: '30s' } }, /^inbox\.shutdown\.readinessDelay: /],
  ['an empty backoff', { backoff: [] }, /^inbox\.backoff: /],
  ['a backoff of nonsense', { backoff: ['soon'] }, /^inbox\.backoff: /],
  ['a shrinking backoff', { backoff: { initial: '1s', multiplier: 0.5, max: '1m' } }, /^inbox\.backoff: /],
])('%s stops the start with its path', (_what, options, message) => {
  expect(() => resolveInboxOptions(given(options))).toThrow(InvalidOptionsError);
  expect(() => resolveInboxOptions(given(options))).toThrow(message);
});

describe('a reorder window', () => {
  const ordered = { ...source, entityKey: () => 'e', sequence: () => 1, reorder: { by: 'sequence', types: ['a'] } };
  const sources = (changes: Record<string, unknown>) => given({ sources: { s: { ...ordered, ...changes } } });

  test('waits five seconds unless told otherwise', () => {
    const { reorder } = resolveInboxOptions(sources({})).sources.s ?? {};
    expect(reorder).toEqual({ by: 'sequence', types: new Set(['a']), window: 5_000 });
  });

  test("with mode 'competing' stops the start with its path", () => {
    const competing = { ...sources({ dedupKey: () => '1' }), mode: 'competing' } as const;
    expect(() => resolveInboxOptions(competing)).toThrow(/^inbox\.sources\.s\.reorder: .*use mode 'ordered'/);
  });

  test.each([
    ['without a sequence', { sequence: undefined }, /^inbox\.sources\.s\.reorder: .*give sequence and entityKey/],
    ["with order 'skip'", { order: 'skip' }, /^inbox\.sources\.s\.reorder: .*use order 'block'/],
    [
      'by something else',
      { reorder: { by: 'id', types: ['a'] } },
      /^inbox\.sources\.s\.reorder\.by: .*'sequence' or 'time'/,
    ],
    ['without types', { reorder: { by: 'time' } }, /^inbox\.sources\.s\.reorder\.types: .*list of types/],
    ['for no type', { reorder: { by: 'time', types: [] } }, /^inbox\.sources\.s\.reorder\.types: .*at least one type/],
    ['for a type with a blank', { reorder: { by: 'time', types: ['a b'] } }, /^inbox\.sources\.s\.reorder\.types\.0: /],
    ['of no time', { reorder: { by: 'time', types: ['a'], window: 0 } }, /^inbox\.sources\.s\.reorder\.window: /],
    ['of an hour', { reorder: { by: 'time', types: ['a'], window: '1h' } }, /^inbox\.sources\.s\.reorder\.window: /],
    ['with another option', { reorder: { by: 'time', types: ['a'], size: 1 } }, /^inbox\.sources\.s\.reorder\.size: /],
  ])('%s stops the start with its path', (_what, changes, message) => {
    expect(() => resolveInboxOptions(sources(changes))).toThrow(InvalidOptionsError);
    expect(() => resolveInboxOptions(sources(changes))).toThrow(message);
  });
});

test('a Redis URL with a password is not repeated in the error, nor kept in it', () => {
  const url = 'redis://:hunter2@host';
  try {
    resolveInboxOptions(given({ lease: { redis: { url } } }));
    throw new Error('it was accepted');
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidOptionsError);
    expect(JSON.stringify({ ...(error as object), message: String(error) })).not.toContain('hunter2');
  }
});

test('a backoff function that returns nonsense at run time stays within limits', () => {
  const { backoff } = resolveInboxOptions(given({ backoff: () => Number.NaN }));
  expect(backoff(1)).toBe(60_000);
  expect(resolveInboxOptions(given({ backoff: () => '400d' })).backoff(1)).toBe(30 * 86_400_000);
});

test('an exponential backoff ends at its maximum', () => {
  const { backoff } = resolveInboxOptions(given({ backoff: { initial: '1s', multiplier: 2, max: '64s' } }));
  expect([1, 2, 3, 7, 8, 2_000].map(backoff)).toEqual([1_000, 2_000, 4_000, 64_000, 64_000, 64_000]);
});
