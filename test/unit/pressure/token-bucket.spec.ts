// The token bucket on a clock of the test's own.
import { TokenBucket } from '../../../src/pressure/token-bucket.js';

let now = 0;
const bucket = (perSecond: number, burst: number) => new TokenBucket({ perSecond, burst }, () => now);
const taken = (subject: TokenBucket, times: number) =>
  Array.from({ length: times }, () => subject.take()).filter((waitMs) => waitMs === 0).length;

test('an idle bucket lets its burst through, then says when the next token comes', () => {
  const subject = bucket(4, 3);
  expect(taken(subject, 3)).toBe(3);
  expect(subject.take()).toBe(250);
  now += 249;
  expect(subject.take()).toBeCloseTo(1);
  now += 1;
  expect(subject.take()).toBe(0);
});

test('never holds more than its burst, however long it was idle', () => {
  const subject = bucket(4, 3);
  now += 3_600_000;
  expect(taken(subject, 100)).toBe(3);
});

test('lets its rate through on average, whatever the distance of the pushes', () => {
  const subject = bucket(7, 1);
  let through = taken(subject, 1);
  for (let step = 0; step < 10_000; step++) {
    now += 13;
    through += taken(subject, 3);
  }
  expect(through).toBeGreaterThan(129 * 7);
  expect(through).toBeLessThanOrEqual(130 * 7 + 1);
});

test('refused pushes cost nothing', () => {
  const subject = bucket(1, 1);
  taken(subject, 1_000);
  now += 1_000;
  expect(taken(subject, 2)).toBe(1);
});

test('a rate below one per second works too', () => {
  const subject = bucket(0.1, 1);
  expect(subject.take()).toBe(0);
  expect(subject.take()).toBe(10_000);
});
