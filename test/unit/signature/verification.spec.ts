/** What every scheme promises alike: genuine pushes pass, changed ones do not, secrets can be rotated. No server. */
import type { IncomingHttpHeaders } from 'node:http';
import { describe, expect, it } from '@jest/globals';
import type { SignedRequest } from '../../../src/signature/index.js';
import { checkedHeaders, nowMs, schemes, signedPush } from './schemes.js';

const valid = { valid: true };
const mismatch = { valid: false, reason: 'mismatch' };

const bodies: readonly (readonly [string, Buffer])[] = [
  ['JSON', Buffer.from('{"orderId":9007199254740993,"a":1,"a":2}')],
  ['no bytes at all', Buffer.alloc(0)],
  ['a byte order mark', Buffer.from('\ufeff{"n":1}')],
  ['emoji', Buffer.from('{"name":"\u{1F469}\u200D\u{1F680} \u738b\u5c0f\u660e"}')],
  ['invalid UTF-8', Buffer.from([0x7b, 0xff, 0xfe, 0xc3, 0x28, 0xed, 0xa0, 0x80, 0x7d])],
  ['a zero byte and line ends', Buffer.from('a\0b\r\nc\n')],
  ['1 MiB', Buffer.alloc(1_048_576, 0xe4)],
];

describe.each(schemes)('$name', (scheme) => {
  const verifier = scheme.make([scheme.secret]);

  it.each(bodies)('accepts a genuine push whose body is %s', (_what, rawBody) => {
    expect(verifier.verify(signedPush(scheme, rawBody), nowMs)).toEqual(valid);
  });

  it.each(bodies)('refuses that body (%s) when one byte of it changed or was added', (_what, rawBody) => {
    const push = signedPush(scheme, rawBody);
    expect(verifier.verify({ ...push, rawBody: Buffer.concat([rawBody, Buffer.from([0x20])]) }, nowMs)).toEqual(
      mismatch,
    );
    if (rawBody.length === 0) return;
    const changed = Buffer.from(rawBody);
    changed[changed.length >> 1] = (changed[changed.length >> 1] ?? 0) ^ 1;
    expect(verifier.verify({ ...push, rawBody: changed }, nowMs)).toEqual(mismatch);
    expect(verifier.verify({ ...push, rawBody: rawBody.subarray(0, -1) }, nowMs)).toEqual(mismatch);
  });

  it('does not take bytes that decode to the same text for the same bytes', () => {
    const push = signedPush(scheme, Buffer.from([0x22, 0xff, 0x22]));
    expect(verifier.verify({ ...push, rawBody: Buffer.from([0x22, 0xfe, 0x22]) }, nowMs)).toEqual(mismatch);
  });

  it('refuses a push signed with another secret', () => {
    expect(verifier.verify(signedPush(scheme, undefined, scheme.otherSecret), nowMs)).toEqual(mismatch);
  });

  it('accepts the old and the new secret while both are listed, in either order', () => {
    const old = signedPush(scheme, undefined, scheme.secret);
    const renewed = signedPush(scheme, undefined, scheme.otherSecret);
    for (const secrets of [
      [scheme.secret, scheme.otherSecret],
      [scheme.otherSecret, scheme.secret],
    ]) {
      const rotating = scheme.make(secrets);
      expect(rotating.verify(old, nowMs)).toEqual(valid);
      expect(rotating.verify(renewed, nowMs)).toEqual(valid);
    }
    expect(scheme.make([scheme.otherSecret]).verify(old, nowMs)).toEqual(mismatch);
  });

  it('refuses a push without its signature, and one whose signature is empty', () => {
    const push = signedPush(scheme);
    for (const value of [undefined, '', []]) {
      const headers = { ...push.headers, [scheme.header]: value };
      expect(verifier.verify({ ...push, headers }, nowMs)).toEqual({ valid: false, reason: 'missing-header' });
    }
    expect(verifier.verify({ ...push, headers: {} }, nowMs)).toEqual({ valid: false, reason: 'missing-header' });
  });

  it('refuses signatures of a wrong length or alphabet quietly', () => {
    const push = signedPush(scheme);
    const genuine = push.headers[scheme.header] as string;
    const wrong = [
      genuine.slice(0, -2),
      genuine.slice(0, -1),
      `${genuine}00`,
      `${genuine}=`,
      genuine.slice(0, 8),
      `${genuine.slice(0, -4)}\u{1F512}`,
      `${genuine.slice(0, -1)}\u00e9`,
      `${genuine.slice(0, -1)}\n`,
      `${genuine}\u0000`,
      genuine.replace(/.$/, ' '),
      genuine.replaceAll('=', '-').replaceAll('+', '_'),
      'null',
      '=',
      '\u{1F512}'.repeat(64),
      'A'.repeat(16_384),
    ];
    for (const value of wrong) {
      const verification = verifier.verify({ ...push, headers: { ...push.headers, [scheme.header]: value } }, nowMs);
      expect([value, verification]).toEqual([value, { valid: false, reason: expect.any(String) }]);
    }
  });

  it('refuses each header of the scheme when it came twice, as a list or joined by Node or a proxy', () => {
    const push = signedPush(scheme);
    for (const name of checkedHeaders(scheme)) {
      const value = push.headers[name] as string;
      for (const repeated of [[value, value], [value, 'x'], `${value}, ${value}`, `${value},${value}`]) {
        const headers = { ...push.headers, [name]: repeated };
        expect([name, repeated, verifier.verify({ ...push, headers }, nowMs)]).toEqual([
          name,
          repeated,
          { valid: false, reason: 'repeated-header' },
        ]);
      }
    }
  });

  it('refuses a header that is not text: whoever calls without HTTP may pass anything', () => {
    const push = signedPush(scheme);
    for (const name of checkedHeaders(scheme)) {
      for (const value of [
        1614265330,
        null,
        true,
        {},
        { toString: () => push.headers[name] },
        [[push.headers[name]]],
        Symbol('x'),
      ]) {
        const headers = { ...push.headers, [name]: value } as unknown as SignedRequest['headers'];
        expect(verifier.verify({ ...push, headers }, nowMs)).toEqual({ valid: false, reason: 'malformed' });
      }
    }
  });

  it('reads a header that a framework hands over as a list of one', () => {
    const push = signedPush(scheme);
    const headers = Object.fromEntries(Object.entries(push.headers).map(([name, value]) => [name, [value as string]]));
    expect(verifier.verify({ ...push, headers }, nowMs)).toEqual(valid);
  });

  it("names the header of the sender's id only where the scheme has one", () => {
    const expected: Record<string, string | undefined> = {
      'standard-webhooks': 'webhook-id',
      'standard-webhooks as svix': 'svix-id',
      github: 'x-github-delivery',
      shopify: 'x-shopify-webhook-id',
    };
    expect(verifier.idHeader).toBe(expected[scheme.name]);
    expect('idHeader' in verifier).toBe(expected[scheme.name] !== undefined);
  });
});

it("Node's own headers are a request's headers without a cast", () => {
  const headers: IncomingHttpHeaders = { 'x-hub-signature-256': 'sha256=00' };
  const request: SignedRequest = { headers, rawBody: Buffer.alloc(0) };
  expect(request.headers).toBe(headers);
});
