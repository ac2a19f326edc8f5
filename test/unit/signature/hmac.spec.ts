/** The generic HMAC verifier and the options that all verifiers refuse. No server. */
import { createHmac } from 'node:crypto';
import { describe, expect, it } from '@jest/globals';
import { InvalidOptionsError } from '../../../src/errors/invalid-options.error.js';
import {
  github,
  type HmacSignatureOptions,
  hmacSignature,
  shopify,
  slack,
  standardWebhooks,
  stripe,
} from '../../../src/signature/index.js';

const secret = 'a-shared-secret-of-enough-bytes';
const options: HmacSignatureOptions = { secrets: [secret], header: 'X-Sign', algorithm: 'sha256', encoding: 'hex' };
const rawBody = Buffer.from('<order id="7"/>');
const hex = createHmac('sha256', secret).update(rawBody).digest('hex');

/** The path that the refusal names. */
function pathOf(make: () => unknown): string {
  try {
    make();
  } catch (error) {
    if (error instanceof InvalidOptionsError) return error.path;
    throw error;
  }
  return 'it was accepted';
}

describe('hmacSignature', () => {
  it('finds its header whatever the case in the option', () => {
    expect(hmacSignature(options).verify({ headers: { 'x-sign': hex }, rawBody }, 0)).toEqual({ valid: true });
  });

  it('carries the name and the id header that it was given', () => {
    const verifier = hmacSignature({ ...options, name: 'order-center', idHeader: 'X-Request-Id' });
    expect([verifier.name, verifier.idHeader]).toEqual(['order-center', 'x-request-id']);
    expect(hmacSignature(options).name).toBe('hmac');
  });

  it('wants the prefix exactly, and nothing before it', () => {
    const verifier = hmacSignature({ ...options, prefix: 'HMAC ' });
    const verdict = (value: string) => verifier.verify({ headers: { 'x-sign': value }, rawBody }, 0);
    expect(verdict(`HMAC ${hex}`)).toEqual({ valid: true });
    for (const value of [hex, `hmac ${hex}`, `HMAC  ${hex}`, ` HMAC ${hex}`, `HMAC${hex}`, 'HMAC ']) {
      expect(verdict(value)).toEqual({ valid: false, reason: 'malformed' });
    }
  });

  it('does not take base64 for hex or hex for base64', () => {
    const base64 = Buffer.from(hex, 'hex').toString('base64');
    const inBase64 = hmacSignature({ ...options, encoding: 'base64' });
    expect(hmacSignature(options).verify({ headers: { 'x-sign': base64 }, rawBody }, 0)).toEqual({
      valid: false,
      reason: 'malformed',
    });
    expect(inBase64.verify({ headers: { 'x-sign': hex }, rawBody }, 0)).toEqual({ valid: false, reason: 'mismatch' });
  });

  it('refuses a digest of a shorter hash, and a truncated one', () => {
    const sha1 = createHmac('sha1', secret).update(rawBody).digest('hex');
    for (const value of [sha1, hex.slice(0, 32), hex.slice(0, 2)]) {
      expect(hmacSignature(options).verify({ headers: { 'x-sign': value }, rawBody }, 0)).toEqual({
        valid: false,
        reason: 'mismatch',
      });
    }
  });

  it('does not find a header that only Object has', () => {
    const verifier = hmacSignature({ ...options, header: 'constructor' });
    expect(verifier.verify({ headers: {}, rawBody }, 0)).toEqual({ valid: false, reason: 'missing-header' });
  });

  it('lets a fault in the payload function through: it is no refusal of the sender', () => {
    const payload = () => {
      throw new Error('the verifier is broken');
    };
    const verifier = hmacSignature({ ...options, timestamp: { header: 'x-time', unit: 's', payload } });
    expect(() => verifier.verify({ headers: { 'x-sign': hex, 'x-time': '0' }, rawBody }, 0)).toThrow(
      'the verifier is broken',
    );
  });

  it.each([
    ['hmacSignature.header', { header: '' }],
    ['hmacSignature.header', { header: 'x sign' }],
    ['hmacSignature.header', { header: undefined }],
    ['hmacSignature.prefix', { prefix: 't=1,v1=' }],
    ['hmacSignature.prefix', { prefix: 5 }],
    ['hmacSignature.algorithm', { algorithm: 'md5' }],
    ['hmacSignature.algorithm', { algorithm: undefined }],
    ['hmacSignature.encoding', { encoding: 'base64url' }],
    ['hmacSignature.name', { name: '' }],
    ['hmacSignature.idHeader', { idHeader: 'x-id:' }],
    ['hmacSignature.tolerance', { tolerance: '5m' }],
    ['hmacSignature.timestamp', { timestamp: null }],
    ['hmacSignature.timestamp.unit', { timestamp: { header: 'x-time', payload: () => rawBody } }],
    ['hmacSignature.timestamp.unit', { timestamp: { header: 'x-time', unit: 'm', payload: () => rawBody } }],
    ['hmacSignature.timestamp.payload', { timestamp: { header: 'x-time', unit: 's' } }],
    ['hmacSignature.timestamp.header', { timestamp: { header: 'x,time', unit: 's', payload: () => rawBody } }],
    [
      'hmacSignature.timestamp.window',
      { timestamp: { header: 'x-time', unit: 's', window: 1, payload: () => rawBody } },
    ],
  ])('refuses a wrong %s at construction (%j)', (path, wrong) => {
    const make = () => hmacSignature({ ...options, ...(wrong as object) });
    expect(pathOf(make)).toBe(path);
  });
});

describe.each([
  ['github', github],
  ['shopify', shopify],
  ['slack', slack],
  ['stripe', stripe],
  ['standardWebhooks', standardWebhooks],
] as const)('%s', (name, make) => {
  it.each(['secret', 'tolerence', 'Secrets'])('refuses the unknown option %s', (key) => {
    const build = () => make({ secrets: [secret], [key]: secret } as never);
    expect(pathOf(build)).toBe(`${name}.${key}`);
  });

  it('refuses to be made without options', () => {
    expect(() => make(undefined as never)).toThrow(InvalidOptionsError);
    expect(() => make(null as never)).toThrow(InvalidOptionsError);
  });
});
