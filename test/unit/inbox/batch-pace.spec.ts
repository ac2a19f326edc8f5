// How messages of a batch handler are spread over the time that its limit needs.
import { batchPace, CallSize } from '../../../src/inbox/batch-pace.js';

const limitOf = (spacingMs: number) => {
  const plans: [number, number][] = [];
  return { delayMs: () => 100, spacingMs, planned: (...plan: [number, number]) => void plans.push(plan), plans };
};

test('messages fall due as many times denser as a call has messages, and are planned as calls', () => {
  const limit = limitOf(200);
  const pace = batchPace(limit, new CallSize(50));
  expect(pace.spacingMs).toBe(4);
  pace.planned(pace.delayMs(), 500);
  expect(limit.plans).toEqual([[100, 10]]);
});

test('the size of a call is learnt from calls, and is never below one', () => {
  const size = new CallSize(100);
  for (let call = 0; call < 60; call++) size.add(10);
  expect(size.messages).toBeGreaterThan(10);
  expect(size.messages).toBeLessThan(11);
  for (let call = 0; call < 60; call++) size.add(0);
  expect(size.messages).toBe(1);
});
