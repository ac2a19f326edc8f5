// Which trace a push belongs to: what counts as a traceparent, what is taken in, what is made. No server.
import { arrivingTrace, headersOfTrace, traceOf } from '../../../src/observability/index.js';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const traceparent = `00-${traceId}-00f067aa0ba902b7-01`;

test('the trace id is that of the traceparent, else the request id, else what the message is known by', () => {
  expect(traceOf({ traceparent, 'x-request-id': 'r1' }, '7').traceId).toBe(traceId);
  expect(traceOf({ 'x-request-id': 'r1' }, '7').traceId).toBe('r1');
  expect(traceOf({}, '7')).toEqual({ traceId: '7' });
});

test('a later version of traceparent may go on after the flags', () => {
  expect(traceOf({ traceparent: `cc-${traceId}-00f067aa0ba902b7-01-what-the-future-holds` }, '').traceId).toBe(traceId);
});

test.each([
  ['version 00 that goes on', `${traceparent}-more`],
  ['version ff', `ff${traceparent.slice(2)}`],
  ['a trace id of zeros', `00-${'0'.repeat(32)}-00f067aa0ba902b7-01`],
  ['a parent of zeros', `00-${traceId}-${'0'.repeat(16)}-01`],
  ['capital letters', traceparent.toUpperCase()],
  ['a later version that goes on without a dash', `cc-${traceId}-00f067aa0ba902b7-01what`],
  ['one that is cut', traceparent.slice(0, -1)],
  ['no text', ''],
])('%s is no traceparent: neither it nor its tracestate is taken in', (_what, wrong) => {
  const made = arrivingTrace({ traceparent: wrong, tracestate: 'a=1' });
  expect(made).toEqual({
    traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
    traceparent: expect.stringMatching(new RegExp(`^00-${made.traceId}-[0-9a-f]{16}-01$`)),
  });
  expect(traceOf(headersOfTrace(made), '')).toMatchObject(made);
});

test('what came along is taken in as it is, and a new trace is made for each push that tells of none', () => {
  const given = { traceparent, tracestate: 'vendor=1', 'x-request-id': 'r1' };
  expect(headersOfTrace(arrivingTrace(given))).toEqual(given);
  expect(headersOfTrace(arrivingTrace({ 'x-request-id': 'r1' }))).toEqual({ 'x-request-id': 'r1' });
  expect(arrivingTrace({}).traceId).not.toBe(arrivingTrace({}).traceId);
});

test('of a header that was sent twice the first one counts; what is too long is cut or dropped', () => {
  expect(arrivingTrace({ 'x-request-id': ['r1', 'r2'] }).traceId).toBe('r1');
  expect(arrivingTrace({ 'x-request-id': 'r'.repeat(500) }).traceId).toBe('r'.repeat(128));
  expect(arrivingTrace({ traceparent, tracestate: `a=${'1'.repeat(2_000)}` }).tracestate).toBeUndefined();
});
