/** Stripe's header with its parts: one time, any number of v1 signatures, everything else ignored. No server. */
import { createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { stripe } from '../../../src/signature/index.js';
import { nowMs } from './schemes.js';

const secret = 'whsec_0f1e2d3c4b5a69788796a5b4c3d2e1f0';
const verifier = stripe({ secrets: [secret] });
const rawBody = Buffer.from('{"id":"evt_1"}');
const hex = (time: string) => createHmac('sha256', secret).update(`${time}.`).update(rawBody).digest('hex');
const now = '1614265330';
const old = '1614200000';
const good = hex(now);

const verdict = (header: string) => {
  const verification = verifier.verify({ headers: { 'stripe-signature': header }, rawBody }, nowMs);
  return 'reason' in verification ? verification.reason : 'valid';
};

describe('Stripe-Signature', () => {
  it.each([
    ['the usual form', `t=${now},v1=${good}`],
    ['a test event with the fake v0', `t=${now},v1=${good},v0=${'0'.repeat(64)}`],
    ['two v1 while a secret is rolled, the good one first', `t=${now},v1=${good},v1=${'0'.repeat(64)}`],
    ['two v1 while a secret is rolled, the good one last', `t=${now},v1=${'0'.repeat(64)},v1=${good}`],
    ['parts in another order', `v1=${good},t=${now}`],
    ['a part that nobody knows yet', `t=${now},v2=x=y,flag,v1=${good}`],
    ['a v1 that cannot be decoded beside a good one', `t=${now},v1=zz,v1=${good}`],
  ])('accepts %s', (_what, header) => {
    expect(verdict(header)).toBe('valid');
  });

  it('refuses two times, wherever they stand and whichever is the good one', () => {
    expect(verdict(`t=${now},t=${old},v1=${good}`)).toBe('repeated-header');
    expect(verdict(`t=${old},t=${now},v1=${good}`)).toBe('repeated-header');
    expect(verdict(`t=${now},t=${now},v1=${good}`)).toBe('repeated-header');
    expect(verdict(`t=${now},v1=${good}, t=${old}`)).toBe('repeated-header');
    expect(verdict(`t=${now},v1=${good},t=`)).toBe('repeated-header');
    expect(verdict(`t=${now},v1=${good},t`)).toBe('repeated-header');
    expect(verdict(`t=${old},v1=${hex(old)}, t=${now},v1=${good}`)).toBe('repeated-header');
  });

  it('ignores the signature under any scheme but v1: no downgrade', () => {
    for (const scheme of ['v0', 'v2', 'V1', 'v1a', 'v', '']) {
      expect(verdict(`t=${now},${scheme}=${good}`)).toBe('unsupported-scheme');
    }
  });

  it.each([
    `v1=${good}`,
    `T=${now},v1=${good}`,
    good,
    `t:${now};v1:${good}`,
    ',',
    '=',
    `t=,v1=${good}`,
    `t=${now},v1=`,
  ])('refuses %j', (header) => {
    expect(verdict(header)).toBe('malformed');
  });

  it('uses the secret as it is written: its base64 part alone is another key', () => {
    const decoded = createHmac('sha256', Buffer.from(secret.slice(6), 'base64'))
      .update(`${now}.`)
      .update(rawBody);
    expect(verdict(`t=${now},v1=${decoded.digest('hex')}`)).toBe('mismatch');
    const bare = createHmac('sha256', secret.slice(6)).update(`${now}.`).update(rawBody);
    expect(verdict(`t=${now},v1=${bare.digest('hex')}`)).toBe('mismatch');
  });
});
