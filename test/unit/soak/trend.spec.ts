// When the soak says that something grows.
import { chartOf, trendOf } from '../../soak/trend.js';

const everyMs = 10_000;
const series = (length: number, at: (index: number) => number) => Array.from({ length }, (_, index) => at(index));
const wobble = (index: number) => [0, 2, -1, 1, -2, 3][index % 6] ?? 0;

test.each<[string, number[], boolean]>([
  ['a steady series', series(60, () => 100), false],
  ['a noisy one', series(60, (at) => 100 + 5 * wobble(at)), false],
  ['a warm-up that climbs and stops', series(60, (at) => 100 + Math.min(at, 15) * 10 + wobble(at)), false],
  ['one spike', series(60, (at) => (at === 45 ? 500 : 100)), false],
  ['a fall', series(60, (at) => 400 - at), false],
  ['a slow leak', series(60, (at) => 100 + at + wobble(at)), true],
  ['a leak in a short soak', series(12, (at) => 100 + 5 * at + wobble(at)), true],
])('%s', (_name, values, grows) => {
  expect(trendOf(values, everyMs, 20).grows).toBe(grows);
});

test('the slope is per minute, and a climb that is allowed is none', () => {
  const values = series(60, (at) => 100 + at);
  expect(trendOf(values, everyMs, 20)).toMatchObject({ first: 120, last: 159, perMinute: 6, climb: 39, noise: 0 });
  expect(trendOf(values, everyMs, 40).grows).toBe(false);
});

test('the chart shows the lowest and the highest', () => {
  expect(chartOf([1, 8, 4.5])).toBe('▁█▅');
  expect(chartOf([3, 3])).toBe('▁▁');
});
