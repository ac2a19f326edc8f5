// The loop that must not die. Real timers with short delays; what is counted are passes, not milliseconds.
import { AsyncLocalStorage } from 'node:async_hooks';
import { SchedulerRegistry } from '@nestjs/schedule';
import { FixedDelayLoop, type FixedDelayLoopOptions } from '../../../src/schedule/index.js';
import { gate } from '../../support/gate.js';
import { waitUntil } from '../../support/wait-until.js';

const loops: FixedDelayLoop[] = [];
afterEach(async () => {
  for (const loop of loops.splice(0)) await loop.stop();
});

function loop(
  pass: () => Promise<void>,
  more: Partial<FixedDelayLoopOptions> = {},
): { loop: FixedDelayLoop; errors: unknown[] } {
  const errors: unknown[] = [];
  const made = new FixedDelayLoop({
    name: 'test',
    delayMs: 5,
    passDeadlineMs: 1_000,
    pass,
    onError: (error) => errors.push(error),
    ...more,
  });
  loops.push(made);
  return { loop: made, errors };
}

test('two passes never run at once, however often it is woken', async () => {
  let running = 0;
  let most = 0;
  let passes = 0;
  const { loop: turning } = loop(async () => {
    most = Math.max(most, ++running);
    await new Promise((resolve) => setTimeout(resolve, 3));
    running--;
    passes++;
  });
  turning.start();
  turning.start();
  await waitUntil(
    () => {
      turning.wake();
      return passes >= 20;
    },
    { what: 'twenty passes', intervalMs: 1 },
  );
  expect(most).toBe(1);
});

test('a pass that throws, at once or later, is reported and the next one comes', async () => {
  let passes = 0;
  const { loop: turning, errors } = loop(() => {
    passes++;
    if (passes === 1) throw new Error('at once');
    return passes === 2 ? Promise.reject(new Error('later')) : Promise.resolve();
  });
  turning.start();
  await waitUntil(() => passes >= 4, { what: 'it goes on' });
  expect(errors.map(String)).toEqual(['Error: at once', 'Error: later']);
});

test('a pass that never settles is left behind and reported', async () => {
  let passes = 0;
  const { loop: turning, errors } = loop(() => (++passes === 1 ? new Promise(() => undefined) : Promise.resolve()), {
    passDeadlineMs: 20,
  });
  turning.start();
  await waitUntil(() => passes >= 3, { what: 'it goes on' });
  expect(String(errors[0])).toContain('did not end within 20 ms');
});

test('waking brings the next pass at once, also when it comes during a pass', async () => {
  let passes = 0;
  const first = gate();
  const { loop: turning } = loop(
    async () => {
      passes++;
      if (passes === 1) await first.opened;
    },
    { delayMs: 3_600_000 },
  );
  turning.start();
  await waitUntil(() => passes === 1, { what: 'the first pass' });
  turning.wake();
  first.open();
  await waitUntil(() => passes === 2, { what: 'the pass of the wake during the first one' });
  turning.wake();
  await waitUntil(() => passes === 3, { what: 'the pass of the wake in the pause' });
});

test('stopping waits for the pass under way and starts no other', async () => {
  const inside = gate();
  const leaving = gate();
  let ended = 0;
  const { loop: turning } = loop(async () => {
    inside.open();
    await leaving.opened;
    ended++;
  });
  turning.start();
  await inside.opened;
  const stopping = turning.stop();
  turning.wake();
  leaving.open();
  await stopping;
  expect(ended).toBe(1);
});

test('a pass belongs to no request, also when a request woke it', async () => {
  const request = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const { loop: turning } = loop(async () => void seen.push(request.getStore()), { delayMs: 3_600_000 });
  turning.start();
  await waitUntil(() => seen.length === 1, { what: 'the first pass' });
  request.run('a request', () => turning.wake());
  await waitUntil(() => seen.length === 2, { what: 'the woken pass' });
  expect(seen).toEqual([undefined, undefined]);
});

test('its timer is shown in the registry while it runs, and gone after it', async () => {
  const registry = new SchedulerRegistry();
  let passes = 0;
  const { loop: turning } = loop(async () => void passes++, { registry });
  turning.start();
  await waitUntil(() => passes >= 2, { what: 'it turns' });
  expect(registry.getTimeouts()).toEqual(['test']);
  await turning.stop();
  expect(registry.getTimeouts()).toEqual([]);
});
