/** Standard Webhooks: several signatures in one header, the signed id, and the secrets' form. No server. */
import { createHmac } from 'node:crypto';
import { describe, expect, it, jest } from '@jest/globals';
import { standardWebhooks } from '../../../src/signature/index.js';
import { nowMs, type Push } from './schemes.js';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const verifier = standardWebhooks({ secrets: [secret] });
const rawBody = Buffer.from('{"test": 2432232314}');
const other = `v1,${Buffer.alloc(32, 7).toString('base64')}`;
const asymmetric = `v1a,${Buffer.alloc(64, 9).toString('base64')}`;

function signature(id: string, time = '1614265330', body: Buffer | string = rawBody, key = secret.slice(6)): string {
  const mac = createHmac('sha256', Buffer.from(key, 'base64')).update(`${id}.${time}.`).update(body);
  return `v1,${mac.digest('base64')}`;
}

function push(id: string, signatures: string, body = rawBody): Push {
  return {
    headers: { 'webhook-id': id, 'webhook-timestamp': '1614265330', 'webhook-signature': signatures },
    rawBody: body,
  };
}

const verdict = (request: Push) => {
  const verification = verifier.verify(request, nowMs);
  return 'reason' in verification ? verification.reason : 'valid';
};

describe('several signatures in the header', () => {
  const good = signature('msg_1');

  it.each([
    ['first', `${good} ${other}`],
    ['last', `${other} ${good}`],
    ['after one of another version', `${asymmetric} ${good}`],
    ['before one of another version', `${good} ${asymmetric}`],
    ['after one of the right version that cannot be decoded', `v1,not-base64! ${good}`],
    ['after one that is too short', `v1,AAAA ${good}`],
    ['between double blanks', `${other}  ${good} `],
  ])('one match is enough: %s', (_where, signatures) => {
    expect(verdict(push('msg_1', signatures))).toBe('valid');
  });

  it('does not read a v1 signature under another version', () => {
    for (const version of ['v1a', 'v2', 'V1', 'v', '']) {
      expect(verdict(push('msg_1', good.replace('v1,', `${version},`)))).not.toBe('valid');
    }
    expect(verdict(push('msg_1', asymmetric))).toBe('unsupported-scheme');
    expect(verdict(push('msg_1', good.replace('v1,', 'v2,')))).toBe('unsupported-scheme');
  });

  it('refuses a header without any version', () => {
    expect(verdict(push('msg_1', good.slice(3)))).toBe('malformed');
    expect(verdict(push('msg_1', 'v1'))).toBe('malformed');
    expect(verdict(push('msg_1', ' '))).toBe('malformed');
  });

  it('refuses two signature headers that were joined, even if one of them is good', () => {
    expect(verdict(push('msg_1', `${other}, ${good}`))).toBe('repeated-header');
    expect(verdict(push('msg_1', `${asymmetric}, ${good}`))).toBe('repeated-header');
    expect(verdict(push('msg_1', `${other},${good}`))).toBe('repeated-header');
    expect(verdict(push('msg_1', `${other} ,${good}`))).toBe('repeated-header');
  });

  it('accepts one spelling of a digest only', () => {
    const digest = good.slice(3);
    expect(verdict(push('msg_1', `v1,${digest.slice(0, -1)}`))).toBe('malformed');
    expect(verdict(push('msg_1', `v1,${digest}=`))).toBe('malformed');
    expect(verdict(push('msg_1', `v1,${digest.slice(0, 4)}\t${digest.slice(4)}`))).toBe('malformed');
    // The last sign before the padding has two spare bits: a decoder that drops them would take four spellings.
    const spare = digest.replace(/(.)=$/, (_whole, sign: string) => `${String.fromCharCode(sign.charCodeAt(0) + 1)}=`);
    expect(Buffer.from(spare, 'base64')).toEqual(Buffer.from(digest, 'base64'));
    expect(verdict(push('msg_1', `v1,${spare}`))).toBe('malformed');
  });
});

describe('the id is signed', () => {
  it('refuses another id, a missing one and an empty one', () => {
    expect(verdict(push('msg_2', signature('msg_1')))).toBe('mismatch');
    expect(verdict(push('', signature('')))).toBe('missing-header');
    const { headers } = push('msg_1', signature('msg_1'));
    expect(verifier.verify({ headers: { ...headers, 'webhook-id': undefined }, rawBody }, nowMs)).toEqual({
      valid: false,
      reason: 'missing-header',
    });
  });

  it("refuses an id that could be another message's id and time: the body cannot bring its own time", () => {
    // What the sender signed: id 'msg_1', an old time, and a body that begins like a time.
    const stolen = signature('msg_1', '1500000000', '1614265330.{"pay":1}');
    const forged = push('msg_1.1500000000', stolen, Buffer.from('{"pay":1}'));
    expect(verdict(forged)).toBe('malformed');
    expect(verdict(push('msg_1.1500000000.x', signature('msg_1.1500000000.x')))).toBe('malformed');
  });

  it.each(['evt.paid.42', 'msg_0.8429384729183', '1614265330', 'a.b', 'order:9/3@shop'])('accepts the id %j', (id) => {
    expect(verdict(push(id, signature(id)))).toBe('valid');
  });

  it.each(['msg 1', 'msg\u00e91', '\u017bmsg', 'msg\t1', 'msg\u00001'])(
    'refuses the id %j, although it is signed',
    (id) => {
      expect(verdict(push(id, signature(id)))).toBe('malformed');
    },
  );
});

describe('the header names', () => {
  it('takes svix headers only when told, and then nothing else', () => {
    const { headers } = push('msg_1', signature('msg_1'));
    const svixHeaders = Object.fromEntries(
      Object.entries(headers).map(([name, value]) => [name.replace('webhook', 'svix'), value]),
    );
    const svix = standardWebhooks({ secrets: [secret], headerPrefix: 'svix' });
    expect(svix.verify({ headers: svixHeaders, rawBody }, nowMs)).toEqual({ valid: true });
    expect(svix.verify({ headers, rawBody }, nowMs)).toEqual({ valid: false, reason: 'missing-header' });
    expect(verifier.verify({ headers: svixHeaders, rawBody }, nowMs)).toEqual({
      valid: false,
      reason: 'missing-header',
    });
    expect(() => standardWebhooks({ secrets: [secret], headerPrefix: 'x' as 'svix' })).toThrow(
      "standardWebhooks.headerPrefix: got \"x\"; write 'webhook' or 'svix'",
    );
  });
});

describe('the secrets', () => {
  it.each([
    ['without whsec_', secret.slice(6)],
    ['without padding', 'whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBk'],
    ['as bytes', Buffer.from(secret.slice(6), 'base64')],
  ])('are read %s', (_how, written) => {
    const key = typeof written === 'string' ? written.replace('whsec_', '') : secret.slice(6);
    const signed = push('msg_1', signature('msg_1', '1614265330', rawBody, key));
    expect(standardWebhooks({ secrets: [written] }).verify(signed, nowMs)).toEqual({ valid: true });
  });

  it.each([
    'whsec_',
    'whsec_not base64 but long enough to be one',
    'my-shared-secret-of-thirty-two-b',
    'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2La_-Sw',
    'whsec_whsec_MfKQ9r8GKYqrTwjUPD8ILPZI',
  ])('refuses %j: it is not what a sender of this scheme hands out', (written) => {
    expect(() => standardWebhooks({ secrets: [secret, written] })).toThrow(/^standardWebhooks\.secrets\[1\]: got /);
  });

  it('warns about a key below the 24 bytes of the specification, refuses one below 16, never prints it', () => {
    const warn = jest.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const short = Buffer.from('0123456789abcdef').toString('base64');
    standardWebhooks({ secrets: [secret, `whsec_${short}`] });
    const warnings = warn.mock.calls;
    warn.mockRestore();
    expect(warnings).toEqual([
      [
        expect.stringMatching(/^standardWebhooks\.secrets\[1\] has 16 bytes/),
        { type: 'MailroomWarning', code: 'MAILROOM_SHORT_SECRET' },
      ],
    ]);
    expect(String(warnings)).not.toContain(short.slice(0, 8));
    const tooShort = Buffer.from('0123456789abcde').toString('base64');
    expect(() => standardWebhooks({ secrets: [`whsec_${tooShort}`] })).toThrow(/at least 16 bytes; this one has 15/);
  });
});
