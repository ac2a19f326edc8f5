/** Random pushes: no verifier throws, none accepts. Random changes of genuine pushes: none is accepted. No server. */
import { describe, expect, it } from '@jest/globals';
import fc from 'fast-check';
import { checkedHeaders, nowMs, schemes, signedPush, timeText } from './schemes.js';

const verifiers = schemes.map((scheme) => scheme.make([scheme.secret, scheme.otherSecret]));

const knownNames = [...new Set(schemes.flatMap((scheme) => [...Object.keys(signedPush(scheme).headers)]))];

/** Text as it comes: near misses of every scheme's grammar, plus anything a string can hold. */
const text = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 80 }),
  fc.string({ unit: 'grapheme', maxLength: 40 }),
  fc.base64String({ minLength: 44, maxLength: 44 }).map((value) => `v1,${value}`),
  fc.stringMatching(/^(sha256=|v0=|sha512=)?[0-9a-f]{60,66}$/),
  fc.stringMatching(/^t=[0-9]{1,14}(,v[01]=[0-9a-f]{64}){0,3}$/),
  fc.integer({ min: -2_000_000_000, max: 2_000_000_000 }).map(String),
  fc.constantFrom(...schemes.filter((scheme) => scheme.unit).map((scheme) => timeText(scheme, nowMs))),
  fc.constantFrom('', ' ', ',', '=', '.', 'v1,', 'v0=', 'sha256=', 't=,v1=', '\u0000', '\ud800', '__proto__'),
);

const value = fc.oneof({ weight: 6, arbitrary: text }, fc.array(text, { maxLength: 3 }), fc.constant(undefined));

const headers = fc.dictionary(
  fc.oneof({ weight: 9, arbitrary: fc.constantFrom(...knownNames) }, fc.string({ maxLength: 12 })),
  value,
  {
    maxKeys: 12,
  },
);

const body = fc.uint8Array({ maxLength: 64 }).map((bytes) => Buffer.from(bytes));

describe('10,000 random pushes', () => {
  it('are all refused by every scheme, and nothing is thrown', () => {
    fc.assert(
      fc.property(headers, body, fc.oneof(fc.constant(nowMs), fc.double()), (given, rawBody, clockMs) =>
        verifiers.every((verifier) => {
          const verification = verifier.verify({ headers: given, rawBody }, clockMs);
          return 'reason' in verification && verification.valid === false;
        }),
      ),
      { numRuns: 10_000 },
    );
  }, 60_000);
});

describe.each(schemes.map((scheme, index) => ({ ...scheme, index })))('$name', (scheme) => {
  it('refuses a genuine push after any change of one character in what is signed or of its signature', () => {
    const genuine = signedPush(scheme, Buffer.from('{"amount":100,"to":"alice"}'));
    const verifier = scheme.make([scheme.secret]);
    const names = checkedHeaders(scheme);
    const change = fc.record({
      name: fc.constantFrom(...names),
      at: fc.nat(),
      char: fc.string({ unit: 'binary-ascii', minLength: 1, maxLength: 1 }),
    });
    fc.assert(
      fc.property(change, ({ name, at, char }) => {
        const old = genuine.headers[name] as string;
        const index = at % old.length;
        // The other case of a hex digit is the same digit.
        fc.pre(old.charAt(index).toLowerCase() !== char.toLowerCase());
        const changed = old.slice(0, index) + char + old.slice(index + 1);
        return 'reason' in verifier.verify({ ...genuine, headers: { ...genuine.headers, [name]: changed } }, nowMs);
      }),
      { numRuns: 2_000 },
    );
    fc.assert(
      fc.property(fc.nat(genuine.rawBody.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const rawBody = Buffer.from(genuine.rawBody);
        rawBody[at] = (rawBody[at] ?? 0) ^ flip;
        return 'reason' in verifier.verify({ ...genuine, rawBody }, nowMs);
      }),
      { numRuns: 500 },
    );
    expect(verifier.verify(genuine, nowMs)).toEqual({ valid: true });
  }, 30_000);
});
