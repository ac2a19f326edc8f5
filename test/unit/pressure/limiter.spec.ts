// The limits on a clock of the test's own.
import fc from 'fast-check';
import { Limiter } from '../../../src/pressure/index.js';

let now: number;
beforeEach(() => {
  now = 5_000;
});
const limiter = (maxConcurrent: number | null, ratePerSecond: number | null) =>
  new Limiter({ maxConcurrent, ratePerSecond }, () => now);

function runOne(subject: Limiter): void {
  const place = subject.take();
  place.start();
  place.end();
}

test('there are never more starts in a second than the rate, however late within 80 ms or the work they arrive', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 60 }),
      fc.array(fc.integer({ min: 0, max: 120 }), { minLength: 200, maxLength: 400 }),
      (rate, pauses) => {
        now = 0;
        const subject = limiter(null, rate);
        const arrivals: number[] = [];
        for (const pause of pauses) {
          const place = subject.waitMs() === 0 ? subject.take() : null;
          // A claim takes its time between the place and the start.
          now += pause % 7;
          place?.start();
          if (place) arrivals.push(now + Math.min(pause, 80));
          now += pause;
          place?.end();
          if (pause % 2) now += Math.ceil(subject.waitMs());
        }
        arrivals.sort((one, other) => one - other);
        const gaps = arrivals.map((at, n) => (arrivals[n + rate] ?? Number.POSITIVE_INFINITY) - at);
        expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1_000);
      },
    ),
  );
});

test.each([0, 30, 1_000])('work of %i ms is fed at 90 % of the rate or more when there is enough of it', (workMs) => {
  now = 0;
  const subject = limiter(null, 30);
  const ends = new Map<number, Array<() => void>>();
  let started = 0;
  for (; now < 60_000; now++) {
    for (const end of ends.get(now) ?? []) end();
    while (subject.waitMs() === 0) {
      const place = subject.take();
      place.start();
      if (workMs === 0) place.end();
      ends.set(now + workMs, [...(ends.get(now + workMs) ?? []), () => place.end()]);
      started++;
    }
  }
  expect(started).toBeGreaterThanOrEqual(0.9 * 30 * 60);
});

test('a rate below one per second spreads its starts', () => {
  const subject = limiter(null, 0.5);
  runOne(subject);
  expect(subject.waitMs()).toBe(2_000);
});

test('places that are taken and not started count', () => {
  const subject = limiter(null, 2);
  const first = subject.take();
  subject.take();
  expect(subject.waitMs()).toBeGreaterThan(0);
  first.end();
  expect(subject.waitMs()).toBe(0);
});

test('at most maxConcurrent at once', () => {
  const subject = limiter(2, null);
  const first = subject.take();
  const second = subject.take();
  first.start();
  second.start();
  expect(subject.waitMs()).toBeGreaterThan(0);
  first.end();
  first.end();
  expect(subject.waitMs()).toBe(0);
  subject.take();
  expect(subject.waitMs()).toBeGreaterThan(0);
});

test('work that nobody waits for keeps its place until it settles', async () => {
  const subject = limiter(1, null);
  const place = subject.take();
  place.start();
  let settle = () => {};
  const settled = new Promise<void>((resolve) => {
    settle = resolve;
  });
  place.endWith(settled, 60_000);
  expect(subject.waitMs()).toBeGreaterThan(0);
  settle();
  await settled;
  await Promise.resolve();
  expect(subject.waitMs()).toBe(0);
});

test('work that never settles gives its place up at last', () => {
  const subject = limiter(1, null);
  const place = subject.take();
  place.start();
  place.endWith(new Promise(() => undefined), 60_000);
  now += 59_999;
  expect(subject.waitMs()).toBeGreaterThan(0);
  now += 1;
  expect(subject.waitMs()).toBe(0);
});

test('what is put off is planned behind what was put off before, within a minute', () => {
  const subject = limiter(null, 10);
  for (let n = 0; n < 10; n++) runOne(subject);
  expect(subject.delayMs()).toBe(1_000);
  subject.planned(1_000, 100);
  expect(subject.delayMs()).toBe(1_000 + 100 * 90);
  subject.planned(subject.delayMs(), 1_000);
  expect(subject.delayMs()).toBe(60_000);
});
