/** Secrets: what is refused at construction, and that no secret can be read back from a verifier or an error. No server. */
import { inspect } from 'node:util';
import { describe, expect, it } from '@jest/globals';
import { InvalidOptionsError } from '../../../src/errors/invalid-options.error.js';
import { hmacSignature } from '../../../src/signature/index.js';
import { nowMs, schemes, signedPush } from './schemes.js';

function refusal(make: () => unknown): InvalidOptionsError {
  try {
    make();
  } catch (error) {
    if (error instanceof InvalidOptionsError) return error;
    throw error;
  }
  throw new Error('it was accepted');
}

/** All that a log, an error tracker or a debugger's print would show. */
const everythingOf = (value: unknown) =>
  [
    inspect(value, { depth: Infinity, showHidden: true, getters: true }),
    JSON.stringify(value),
    String(value),
    Object.entries(value as object).join(),
  ].join('\n');

describe.each(schemes)('$name', (scheme) => {
  it.each([
    ['no list', undefined],
    ['text instead of a list', scheme.secret],
    ['an empty list', []],
  ])('refuses %s', (_what, secrets) => {
    const error = refusal(() => scheme.make(secrets as never));
    expect(error.path).toMatch(/^\w+\.secrets$/);
    expect(everythingOf(error)).not.toContain(scheme.secret);
  });

  it.each([
    ['an unset variable', undefined, /is its environment variable set/],
    ['null', null, /is its environment variable set/],
    ['empty text', '', /is its environment variable set/],
    ['a number', 12345678901234567890n, /as text or as bytes/],
    ['a line end after it', `${scheme.secret}\n`, /white space/],
    ['a blank before it', ` ${scheme.secret}`, /white space/],
    ['fifteen bytes', Buffer.alloc(15, 7), /at least 16 bytes; this one has 15/],
  ])('refuses %s as the second secret and names its place', (_what, secret, expected) => {
    const error = refusal(() => scheme.make([scheme.secret, secret] as never));
    expect(error.path).toMatch(/^\w+\.secrets\[1\]$/);
    expect(error.message).toMatch(expected);
    expect(everythingOf(error)).not.toContain(scheme.secret);
  });

  it('never holds the refused secret in the error', () => {
    for (const secret of ['short-secret', `${scheme.secret} `, '\u{1F512}\u{1F512}\u{1F512}']) {
      const error = refusal(() => scheme.make([secret]));
      expect(everythingOf(error)).not.toContain(secret.trim());
    }
  });

  it('shows no secret when it is printed, logged or serialised', () => {
    const verifier = scheme.make([scheme.secret, scheme.otherSecret]);
    const shown = everythingOf(verifier);
    for (const secret of [scheme.secret, scheme.otherSecret]) {
      const bare = secret.replace('whsec_', '');
      for (const spelling of [
        bare,
        Buffer.from(bare).toString('base64'),
        Buffer.from(bare).toString('hex'),
        Buffer.from(bare, 'base64').toString('hex'),
      ]) {
        expect(shown).not.toContain(spelling);
      }
    }
    expect(JSON.parse(JSON.stringify(verifier))).toEqual(
      verifier.idHeader === undefined ? { name: verifier.name } : { name: verifier.name, idHeader: verifier.idHeader },
    );
  });

  it('cannot be changed from outside', () => {
    const secrets = [scheme.secret];
    const verifier = scheme.make(secrets);
    secrets.pop();
    expect(Object.isFrozen(verifier)).toBe(true);
    expect(verifier.verify(signedPush(scheme), nowMs)).toEqual({ valid: true });
  });
});

it('copies a secret given as bytes: wiping the original later does not change the key', () => {
  const bytes = Buffer.alloc(20, 0x0b);
  const verifier = hmacSignature({ secrets: [bytes], header: 'x-mac', algorithm: 'sha256', encoding: 'hex' });
  bytes.fill(0);
  const headers = { 'x-mac': 'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7' };
  expect(verifier.verify({ headers, rawBody: Buffer.from('Hi There') }, 0)).toEqual({ valid: true });
});
