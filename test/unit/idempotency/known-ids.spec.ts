// The caches of known keys: bounded, and never more than a hint. Redis is a double here; the real one is in
// integration/intake/door-cache.spec.ts.
import { knownKey, MemoryIds, type RedisCommands, RedisIds, TieredIds } from '../../../src/idempotency/index.js';

let now: number;
let asked: number;
let answer: () => Promise<string | null>;
let redis: RedisCommands & { status: string };
let ids: RedisIds;
beforeEach(() => {
  now = 1_000_000;
  asked = 0;
  answer = async () => '7';
  const ask = () => {
    asked++;
    return answer();
  };
  redis = { status: 'ready', get: ask, set: ask, disconnect: () => undefined };
  ids = new RedisIds(redis, 'shop:known:', 60_000, () => now);
});

test('a key is named by its scope and the hash of its bytes, so equal names are equal keys', () => {
  const name = (scope: string, key: string) => knownKey(scope, Buffer.from(key));
  expect(name('a', 'x')).toBe(name('a', 'x'));
  const different = ['x', 'X', 'x ', 'x\t', 'ẋ', 'k'.repeat(255), 'k'.repeat(256)].map((key) => name('a', key));
  expect(new Set([...different, name('b', 'x')]).size).toBe(8);
  expect(name('a', 'a secret')).not.toContain('secret');
});

test('memory holds the newest keys only, and each for its time', async () => {
  const memory = new MemoryIds(3, 60_000);
  for (let n = 1; n <= 5; n++) memory.remember(`k${n}`, String(n));
  const found = await Promise.all(['k1', 'k2', 'k3', 'k4', 'k5'].map((key) => memory.find(key)));
  expect(found).toEqual([null, null, '3', '4', '5']);
});

test('Redis that is not connected is not asked', async () => {
  redis.status = 'reconnecting';
  expect(await ids.find('k')).toBeNull();
  ids.remember('k', '7');
  expect(asked).toBe(0);
});

test('after three failures in a row Redis rests for a second, then one look-up tries', async () => {
  answer = async () => {
    throw new Error('Command timed out');
  };
  for (let n = 0; n < 100; n++) expect(await ids.find('k')).toBeNull();
  expect(asked).toBe(3);
  now += 1_000;
  await Promise.all(Array.from({ length: 100 }, () => ids.find('k')));
  expect(asked).toBe(4);
  now += 1_000;
  answer = async () => '7';
  expect(await ids.find('k')).toBe('7');
  expect(await ids.find('k')).toBe('7');
});

test('what is no id is no answer', async () => {
  for (const value of ['', 'x', '-1', '1 ', '123456789012345678901', '{}']) {
    answer = async () => value;
    expect(await ids.find('k')).toBeNull();
  }
});

test('writes that do not end are not piled up', () => {
  answer = () => new Promise(() => undefined);
  for (let n = 0; n < 5_000; n++) ids.remember(`k${n}`, '1');
  expect(asked).toBe(1_000);
});

test('what the far tier knew is near from then on', async () => {
  const tiers = new TieredIds(new MemoryIds(10, 60_000), ids);
  expect(await tiers.find('k')).toBe('7');
  answer = async () => null;
  expect(await tiers.find('k')).toBe('7');
  expect(asked).toBe(1);
});
