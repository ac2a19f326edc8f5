// The breaker's options: defaults, and what is refused.

import { type InboxOptions, resolveInboxOptions } from '../../../src/inbox/inbox-options.js';
import { breakerRules } from '../../../src/pressure/index.js';

const rules = (breaker?: unknown) => {
  const options: InboxOptions = { sources: {}, ...(breaker === undefined ? {} : { breaker: breaker as never }) };
  return breakerRules(resolveInboxOptions(options).breaker);
};

test('the default opens at half of at least 20 failures in a minute, for half a minute, and knows no slow calls', () => {
  expect(rules()).toEqual({
    windowMs: 60_000,
    failureRate: 0.5,
    minimumCalls: 20,
    openForMs: 30_000,
    slowCallMs: null,
    slowRate: 0.5,
  });
});

test('false is no breaker', () => {
  expect(rules(false)).toBeNull();
});

test('slow calls count from slowCall on', () => {
  expect(rules({ slowCall: '2s', slowRate: 0.8 })).toMatchObject({ slowCallMs: 2_000, slowRate: 0.8 });
});

test.each([
  [{ window: '1ms' }, 'inbox.breaker.window'],
  [{ failureRate: 50 }, 'inbox.breaker.failureRate'],
  [{ minimumCalls: 0 }, 'inbox.breaker.minimumCalls'],
  [{ slowRate: 0.5 }, 'inbox.breaker.slowRate'],
  [{ opensFor: '30s' }, 'inbox.breaker.opensFor'],
  [true, 'write false, or an object'],
])('%j is refused', (breaker, text) => {
  expect(() => rules(breaker)).toThrow(text);
});
