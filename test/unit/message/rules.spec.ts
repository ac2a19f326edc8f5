// The pure rules about messages: states, stored errors, entities and lanes.

import { outcomeOfFailure } from '../../../src/delivery/attempt-outcome.js';
import { keyBytes } from '../../../src/inbox/message-key.js';
import { PermanentFailureError, RetryAfterError } from '../../../src/index.js';
import { entityHash, laneOf } from '../../../src/message/entity-hash.js';
import {
  type InboxStatus,
  isAllowedInboxTransition,
  isTerminalInboxStatus,
} from '../../../src/message/inbox-status.js';
import { storedError } from '../../../src/message/outcome.js';

const statuses: InboxStatus[] = ['pending', 'processing', 'success', 'failed', 'held'];

test('exactly the documented transitions are allowed', () => {
  const allowed = statuses.flatMap((from) =>
    statuses.filter((to) => isAllowedInboxTransition(from, to)).map((to) => `${from} -> ${to}`),
  );
  expect(allowed.toSorted()).toEqual(
    [
      'pending -> processing',
      'pending -> held',
      'held -> pending',
      'processing -> success',
      'processing -> failed',
      'processing -> pending',
      'failed -> pending',
      'success -> pending',
    ].toSorted(),
  );
  expect(statuses.filter(isTerminalInboxStatus)).toEqual(['success', 'failed']);
});

test('an error is cut on a character boundary, and lone surrogates are replaced', () => {
  const { message } = storedError(new Error(`${'a'.repeat(499)}😀😀`));
  expect(Array.from(message)).toHaveLength(500);
  expect(message.endsWith('😀')).toBe(true);
  expect(storedError(new Error('x\ud800y')).message).toBe('x\ufffdy');
});

test('a kind is a short ASCII word, from kind, code or name', () => {
  expect(storedError(Object.assign(new Error('x'), { kind: 'conflict' })).kind).toBe('conflict');
  expect(storedError(Object.assign(new Error('x'), { code: 'ER_DUP_ENTRY' })).kind).toBe('ER_DUP_ENTRY');
  expect(storedError(new RangeError('x')).kind).toBe('RangeError');
  expect(storedError(Object.assign(new Error('x'), { kind: `ä b${'c'.repeat(100)}` })).kind).toBe(
    `_b${'c'.repeat(62)}`,
  );
});

test('an error whose message cannot be read is stored all the same', () => {
  const hostile = Object.defineProperty(new Error('x'), 'message', {
    get() {
      throw new Error('no');
    },
  });
  expect(storedError(hostile)).toEqual({ kind: 'Error', message: 'unreadable error' });
});

describe('what follows from a failed attempt', () => {
  const policy = { maxRetry: 2, backoff: (attempt: number) => attempt * 1_000 };
  test('retries until they are used up', () => {
    expect([1, 2, 3].map((attempts) => outcomeOfFailure(new Error('x'), attempts, policy))).toMatchObject([
      { kind: 'retry', delayMs: 1_000 },
      { kind: 'retry', delayMs: 2_000 },
      { kind: 'failed' },
    ]);
  });
  test('a permanent failure ends at once', () =>
    expect(outcomeOfFailure(new PermanentFailureError('x'), 1, policy).kind).toBe('failed'));
  test('RetryAfterError chooses its delay, but not more attempts', () => {
    expect(outcomeOfFailure(new RetryAfterError('7s'), 1, policy)).toMatchObject({ kind: 'retry', delayMs: 7_000 });
    expect(outcomeOfFailure(new RetryAfterError('7s'), 3, policy).kind).toBe('failed');
  });
});

test('an entity has one hash and one lane, and lanes are used evenly', () => {
  const key = Buffer.from('order-1');
  expect(entityHash('s', key)).toBe(entityHash('s', Buffer.from('order-1')));
  expect(entityHash('s', key)).not.toBe(entityHash('t', key));
  // The separator keeps ('ab', 'c') and ('a', 'bc') apart.
  expect(entityHash('ab', Buffer.from('c'))).not.toBe(entityHash('a', Buffer.from('bc')));
  expect(laneOf('s', key, 1)).toBe(0);
  const counts = Array(8).fill(0);
  for (let n = 0; n < 8_000; n++) counts[laneOf('s', Buffer.from(`e${n}`), 8)]++;
  for (const count of counts) expect(Math.abs(count - 1_000)).toBeLessThan(150);
});

describe('keys', () => {
  test.each<[string, Parameters<typeof keyBytes>[0], string]>([
    ['text', 'evt_1', 'evt_1'],
    ['trailing blanks', 'evt_1 ', 'evt_1 '],
    ['a number', 42, '42'],
    ['a big integer', 7_088_992_364_139_642_881n, '7088992364139642881'],
    ['bytes', Buffer.from('x'), 'x'],
  ])('%s', (_what, value, expected) => expect(keyBytes(value)?.toString()).toBe(expected));
  test.each<[string, unknown]>([
    ['empty text', ''],
    ['text with a lone surrogate', 'q\ud801'],
    ['a number that lost digits', JSON.parse('7088992364139642881')],
    ['a fraction', 1.5],
    ['NaN', Number.NaN],
    ['an object', {}],
    ['a boolean', true],
  ])('no key is made of %s', (_what, value) => expect(keyBytes(value as string)).toBeNull());
  test('a long key is hashed, and two long keys stay different', () => {
    const [a, b] = [keyBytes(`${'x'.repeat(300)}a`), keyBytes(`${'x'.repeat(300)}b`)];
    expect(a).toHaveLength(32);
    expect(a?.equals(b ?? Buffer.alloc(0))).toBe(false);
    expect(keyBytes('x'.repeat(255))).toHaveLength(255);
    expect(keyBytes('é'.repeat(128))).toHaveLength(32);
  });
});
