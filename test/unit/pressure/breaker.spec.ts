// The breaker's states on a clock of the test's own.
import { Breaker, type BreakerRules, type BreakerState, type CallResult } from '../../../src/pressure/index.js';

let now: number;
let changes: BreakerState[];
beforeEach(() => {
  now = 1_000_000;
  changes = [];
});

function breaker(rules: Partial<BreakerRules> = {}) {
  const all = {
    windowMs: 60_000,
    failureRate: 0.5,
    minimumCalls: 20,
    openForMs: 30_000,
    slowCallMs: null,
    slowRate: 0.5,
  };
  return new Breaker(
    { ...all, ...rules },
    () => now,
    (state) => changes.push(state),
  );
}

function calls(subject: Breaker, result: CallResult, times: number, durationMs = 1): void {
  for (let n = 0; n < times; n++) subject.begin().end(result, durationMs);
}

test('it opens at the failure rate, not below it', () => {
  const subject = breaker();
  calls(subject, 'success', 11);
  calls(subject, 'failure', 10);
  expect(subject.state).toBe('closed');
  calls(subject, 'failure', 1);
  expect(subject.state).toBe('open');
  expect(subject.waitMs()).toBe(30_000);
});

test('fewer calls than the minimum decide nothing', () => {
  const subject = breaker();
  calls(subject, 'failure', 19);
  expect([subject.state, subject.waitMs()]).toEqual(['closed', 0]);
  calls(subject, 'failure', 1);
  expect(subject.state).toBe('open');
});

test('calls that left the window do not count', () => {
  const subject = breaker();
  calls(subject, 'failure', 19);
  now += 60_000;
  calls(subject, 'failure', 1);
  expect(subject.counts()).toEqual({ calls: 1, failures: 1, slow: 0 });
  expect(subject.state).toBe('closed');
});

test('neutral calls count neither way', () => {
  const subject = breaker();
  calls(subject, 'neutral', 100);
  calls(subject, 'failure', 20);
  expect(subject.state).toBe('open');
});

test('slow calls open it too', () => {
  const subject = breaker({ slowCallMs: 500, slowRate: 0.8 });
  calls(subject, 'success', 4, 500);
  calls(subject, 'success', 15, 501);
  expect(subject.state).toBe('closed');
  calls(subject, 'success', 1, 501);
  expect([subject.state, changes]).toEqual(['open', ['open']]);
});

describe('after it opened', () => {
  let subject: Breaker;
  beforeEach(() => {
    subject = breaker({ slowCallMs: 500 });
    calls(subject, 'failure', 20);
  });

  test('nothing goes through until openFor has passed, then one probe at a time', () => {
    now += 29_999;
    expect(subject.waitMs()).toBe(1);
    now += 1;
    expect(subject.waitMs()).toBe(0);
    subject.begin();
    expect([subject.state, subject.waitMs()]).toEqual(['half-open', 7_500]);
  });

  test.each([
    ['a good probe closes it', 'success', 1, 'closed', 0],
    ['a failed probe opens it for as long again', 'failure', 1, 'open', 30_000],
    ['a slow probe opens it again', 'success', 501, 'open', 30_000],
    ['a neutral probe lets the next one try', 'neutral', 1, 'half-open', 0],
  ] as const)('%s', (_what, result, durationMs, state, waitMs) => {
    now += 30_000;
    subject.begin().end(result, durationMs);
    expect([subject.state, subject.waitMs()]).toEqual([state, waitMs]);
  });

  test('a closed one starts to count anew', () => {
    now += 30_000;
    calls(subject, 'success', 1);
    calls(subject, 'failure', 19);
    expect(subject.state).toBe('closed');
    expect(changes).toEqual(['open', 'half-open', 'closed']);
  });
});

test('a call from before the change of state says nothing about the time after it', () => {
  const subject = breaker();
  const early = subject.begin();
  const others = Array.from({ length: 20 }, () => subject.begin());
  calls(subject, 'failure', 20);
  now += 30_000;
  const probe = subject.begin();
  early.end('success', 1);
  expect(subject.state).toBe('half-open');
  probe.end('success', 1);
  for (const other of others) other.end('failure', 1);
  probe.end('failure', 1);
  expect([subject.state, subject.counts().calls]).toEqual(['closed', 0]);
});
