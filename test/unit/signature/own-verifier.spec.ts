/** docs/signatures.md against the code: its example verifier works as printed, its lists are complete. No server. */
import { generateKeyPairSync, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { expect, it } from '@jest/globals';
import type { SignatureRefusal } from '../../../src/signature/index.js';
import { partnerSignature } from './partner-signature.js';
import { nowMs, schemes } from './schemes.js';

const page = readFileSync(new URL('../../../docs/signatures.md', import.meta.url), 'utf8');

it('the example of an own verifier is printed as it is tested', () => {
  const tested = readFileSync(new URL('./partner-signature.ts', import.meta.url), 'utf8');
  const code = tested.slice(tested.indexOf('export function'));
  expect(page).toContain(code);
});

it('the example of an own verifier accepts genuine pushes and nothing else', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const verifier = partnerSignature(publicKey.export({ type: 'spki', format: 'pem' }).toString());
  const rawBody = Buffer.from('{"n":1}');
  const time = String(nowMs);
  const signature = sign(null, Buffer.from(`${time}.{"n":1}`), privateKey).toString('base64');
  const headers = { 'x-partner-time': time, 'x-partner-signature': signature };
  const verdict = (change: object, body = rawBody) =>
    verifier.verify({ headers: { ...headers, ...change }, rawBody: body }, nowMs);
  expect(verdict({})).toEqual({ valid: true });
  expect(verdict({}, Buffer.from('{"n":2}'))).toEqual({ valid: false, reason: 'mismatch' });
  expect(verdict({ 'x-partner-signature': '' })).toEqual({ valid: false, reason: 'mismatch' });
  expect(verdict({ 'x-partner-signature': '\u{1F512}' })).toEqual({ valid: false, reason: 'mismatch' });
  expect(verdict({ 'x-partner-signature': [signature, signature] })).toEqual({
    valid: false,
    reason: 'repeated-header',
  });
  expect(verdict({ 'x-partner-time': undefined })).toEqual({ valid: false, reason: 'missing-header' });
  expect(verdict({ 'x-partner-time': '1e12' })).toEqual({ valid: false, reason: 'malformed' });
  expect(verdict({ 'x-partner-time': String(nowMs - 300_001) })).toEqual({ valid: false, reason: 'outside-tolerance' });
});

it('the page lists every reason and every header that a scheme reads', () => {
  const reasons: Record<SignatureRefusal, true> = {
    'missing-header': true,
    'repeated-header': true,
    malformed: true,
    'unsupported-scheme': true,
    'outside-tolerance': true,
    mismatch: true,
  };
  for (const reason of Object.keys(reasons)) expect(page).toContain(`| \`${reason}\` |`);
  for (const scheme of schemes) {
    for (const name of [scheme.header, scheme.timestampHeader, scheme.make([scheme.secret]).idHeader]) {
      if (name !== undefined) expect(page.toLowerCase()).toContain(name);
    }
  }
});
