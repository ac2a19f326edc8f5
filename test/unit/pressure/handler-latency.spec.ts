// How much of its concurrency the consumer uses, from how long handlers take, on a clock of the test's own.
import { HandlerLatency } from '../../../src/pressure/index.js';

let now: number;
let latency: HandlerLatency;
beforeEach(() => {
  now = 1_000_000;
  latency = new HandlerLatency(() => now);
});

function took(ms: number, times: number, kind = 'erp'): void {
  for (let n = 0; n < times; n++) {
    now += 1;
    latency.took(kind, ms);
  }
}

test('uses all of it at first, and while handlers take their usual time', () => {
  expect(latency.concurrency(8)).toBe(8);
  took(100, 500);
  took(180, 50);
  expect(latency.concurrency(8)).toBe(8);
});

test('rising times lower it step by step, to a quarter at least, and never below one', () => {
  took(100, 100);
  took(1_000, 12);
  const first = latency.concurrency(100);
  expect(first).toBeLessThan(100);
  expect(first).toBeGreaterThan(40);
  took(10_000, 40);
  expect(latency.concurrency(100)).toBe(25);
  expect(latency.concurrency(1)).toBe(1);
  expect(latency.concurrency(4)).toBe(1);
});

test('comes back when the times do', () => {
  took(100, 100);
  took(1_000, 40);
  expect(latency.concurrency(8)).toBeLessThan(5);
  took(100, 100);
  expect(latency.concurrency(8)).toBe(8);
});

test('a time that stays becomes the usual one', () => {
  took(100, 300);
  took(700, 40);
  expect(latency.concurrency(8)).toBeLessThan(7);
  took(700, 600);
  expect(latency.concurrency(8)).toBe(8);
});

test('quick handlers that become a little less quick change nothing', () => {
  took(2, 100);
  took(495, 100);
  expect(latency.concurrency(8)).toBe(8);
});

test('a mix of quick and slow kinds is no rise', () => {
  for (let n = 0; n < 200; n++) {
    took(10, 20, 'quick');
    took(2_000, 1, 'slow');
  }
  took(2_000, 100, 'slow');
  expect(latency.concurrency(8)).toBe(8);
});

test('after a minute without any attempt nothing is held against anybody', () => {
  took(100, 100);
  took(5_000, 60);
  expect(latency.concurrency(8)).toBe(2);
  now += 60_001;
  expect(latency.concurrency(8)).toBe(8);
});
