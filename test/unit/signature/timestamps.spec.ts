/**
 * The signed time (CASES C103): each push below carries a genuine signature over the time it shows, so only the rule about
 * the time can refuse it. No server.
 */
import { describe, expect, it } from '@jest/globals';
import { InvalidOptionsError } from '../../../src/errors/invalid-options.error.js';
import { nowMs, type Scheme, timedSchemes, timeText } from './schemes.js';

const minute = 60_000;
const rawBody = Buffer.from('{"n":1}');

function reasonFor(scheme: Scheme, time: string, tolerance?: number | string, clockMs = nowMs): unknown {
  const verification = scheme
    .make([scheme.secret], tolerance)
    .verify(scheme.sign(scheme.secret, rawBody, time), clockMs);
  return 'reason' in verification ? verification.reason : 'valid';
}

describe.each(timedSchemes)('$name', (scheme) => {
  const time = (ms: number) => timeText(scheme, ms);

  it.each([
    ['now', 0],
    ['4 minutes ago', -4 * minute],
    ['in 4 minutes', 4 * minute],
    ['exactly 5 minutes ago', -5 * minute],
    ['exactly in 5 minutes', 5 * minute],
  ])('accepts a time inside the window: %s', (_what, offsetMs) => {
    expect(reasonFor(scheme, time(nowMs + offsetMs))).toBe('valid');
  });

  it.each([
    ['10 minutes ago', -10 * minute],
    ['in 10 minutes', 10 * minute],
    ['5 minutes and a second ago', -5 * minute - 1000],
    ['in 5 minutes and a second', 5 * minute + 1000],
    ['three days ago', -3 * 86_400_000],
    ['1970', -nowMs],
  ])('refuses a time outside the window: %s', (_what, offsetMs) => {
    expect(reasonFor(scheme, time(nowMs + offsetMs))).toBe('outside-tolerance');
  });

  it('refuses the other unit: milliseconds for seconds, seconds for milliseconds', () => {
    const otherUnit = scheme.unit === 's' ? String(nowMs) : String(Math.floor(nowMs / 1000));
    expect(reasonFor(scheme, otherUnit)).toBe('outside-tolerance');
  });

  it.each([
    'abc',
    'NaN',
    'Infinity',
    'null',
    'undefined',
    '1e309',
    '1.614265330e9',
    '0x60381d72',
    '1614265330abc',
    '1614265330.0',
    '1614265330.9',
    '-1614265330',
    '+1614265330',
    ' 1614265330',
    '1614265330 ',
    '16142 65330',
    '01614265330',
    '1_614_265_330',
    '\u0661\u0666\u0661\u0664\u0662\u0666\u0665\u0663\u0663\u0660',
    '99999999999999',
    '9'.repeat(400),
    '2021-02-25T15:02:10Z',
  ])('refuses %j, although it is signed', (text) => {
    expect(reasonFor(scheme, text)).toBe('malformed');
  });

  it('refuses an empty time', () => {
    expect(reasonFor(scheme, '')).toBe(scheme.timestampHeader === undefined ? 'malformed' : 'missing-header');
  });

  it('refuses a time that was changed after signing, inside the window too', () => {
    const push = scheme.sign(scheme.secret, rawBody, time(nowMs));
    const name = scheme.timestampHeader ?? scheme.header;
    const headers = {
      ...push.headers,
      [name]: (push.headers[name] as string).replace(time(nowMs), time(nowMs - minute)),
    };
    expect(headers[name]).not.toBe(push.headers[name]);
    expect(scheme.make([scheme.secret]).verify({ headers, rawBody }, nowMs)).toEqual({
      valid: false,
      reason: 'mismatch',
    });
  });

  it('refuses everything while the clock is not a number', () => {
    expect(reasonFor(scheme, time(nowMs), '5m', Number.NaN)).toBe('outside-tolerance');
  });

  it('takes a tolerance in text or milliseconds', () => {
    expect(reasonFor(scheme, time(nowMs - 9 * minute), '10m')).toBe('valid');
    expect(reasonFor(scheme, time(nowMs - 9 * minute), 600_000)).toBe('valid');
    expect(reasonFor(scheme, time(nowMs - 3000), '2s')).toBe('outside-tolerance');
  });

  it.each([
    0,
    -1,
    -300_000,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    null,
    '0s',
    '0ms',
    '-5m',
    '',
    'off',
    'five minutes',
    false,
    {},
    1e-9,
  ])('refuses the tolerance %p at construction and says what to write', (tolerance) => {
    const make = () => scheme.make([scheme.secret], tolerance as never);
    expect(make).toThrow(InvalidOptionsError);
    expect(make).toThrow(/\.tolerance: got .*'5m'/);
  });

  it.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, null, '0s'])(
    'says that %p does not switch the check off',
    (tolerance) => {
      expect(() => scheme.make([scheme.secret], tolerance as never)).toThrow(/cannot be switched off/);
    },
  );

  it('has a window of 5 minutes when no tolerance is given', () => {
    expect(reasonFor(scheme, time(nowMs - 5 * minute), undefined)).toBe('valid');
    expect(reasonFor(scheme, time(nowMs - 6 * minute), undefined)).toBe('outside-tolerance');
  });
});

describe.each(timedSchemes.filter((scheme) => scheme.unit === 's'))('$name counts seconds', (scheme) => {
  it('refuses a tolerance below one second: a plain 300 was meant as seconds', () => {
    expect(() => scheme.make([scheme.secret], 300)).toThrow(/\.tolerance: got 300; write at least '1s'/);
  });

  it('gives a push its whole tolerance, although its time was cut to the second', () => {
    expect(reasonFor(scheme, '1614265330', '1s', 1_614_265_331_999)).toBe('valid');
    expect(reasonFor(scheme, '1614265330', '1s', 1_614_265_332_000)).toBe('outside-tolerance');
  });
});
