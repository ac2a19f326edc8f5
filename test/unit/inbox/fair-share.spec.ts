// The share of lanes: pure memory, with a clock of its own.
import { FairShare } from '../../../src/inbox/fair-share.js';

function share() {
  let at = 0;
  const fair = new FairShare(1_000, 5_000, () => at);
  return { fair, pass: (ms: number) => (at += ms) };
}

test('without others every lane may be taken', () => {
  const { fair } = share();
  fair.divide(8, 1);
  expect(Array.from({ length: 8 }, (_, lane) => fair.tryTake(lane))).toEqual(Array(8).fill(true));
});

test('eight lanes among three instances are three each, rounded up', () => {
  const { fair } = share();
  fair.divide(8, 3);
  expect([0, 1, 2, 3].map((lane) => fair.tryTake(lane))).toEqual([true, true, true, false]);
  fair.done(1);
  expect(fair.tryTake(3)).toBe(true);
});

test('a lane that nobody takes is tried beyond the share after a while', () => {
  const { fair, pass } = share();
  fair.divide(2, 2);
  expect(fair.tryTake(0)).toBe(true);
  expect(fair.tryTake(1)).toBe(false);
  pass(4_999);
  expect(fair.tryTake(1)).toBe(false);
  pass(1);
  expect(fair.tryTake(1)).toBe(true);
});

test('surplus lanes are given back one per tick, the longest held first', () => {
  const { fair, pass } = share();
  fair.divide(4, 1);
  for (const lane of [2, 0, 1, 3]) fair.tryTake(lane);
  pass(1_000);
  fair.divide(4, 2);
  expect([0, 1, 3].some((lane) => fair.shouldGiveBack(lane))).toBe(false);
  expect(fair.shouldGiveBack(2)).toBe(true);
  expect(fair.shouldGiveBack(2)).toBe(true);
  fair.done(2);
  expect(fair.shouldGiveBack(0)).toBe(false);
  pass(1_000);
  expect(fair.shouldGiveBack(0)).toBe(true);
  fair.done(0);
  pass(1_000);
  expect([1, 3].some((lane) => fair.shouldGiveBack(lane))).toBe(false);
});
