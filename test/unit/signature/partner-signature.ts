import { createPublicKey, verify } from 'node:crypto';
import type { SignatureVerifier } from '../../../src/signature/index.js';

/** A partner that signs `<time>.<body>` with Ed25519. */
export function partnerSignature(publicKeyPem: string): SignatureVerifier {
  const key = createPublicKey(publicKeyPem);
  return {
    name: 'partner',
    idHeader: 'x-partner-id',
    verify({ headers, rawBody }, nowMs) {
      const time = headers['x-partner-time'];
      const signature = headers['x-partner-signature'];
      if (time === undefined || signature === undefined) return { valid: false, reason: 'missing-header' };
      if (typeof time !== 'string' || typeof signature !== 'string') return { valid: false, reason: 'repeated-header' };
      if (!/^[0-9]{13}$/.test(time)) return { valid: false, reason: 'malformed' };
      if (Math.abs(nowMs - Number(time)) > 300_000) return { valid: false, reason: 'outside-tolerance' };
      const signed = Buffer.concat([Buffer.from(`${time}.`), rawBody]);
      const valid = verify(null, signed, key, Buffer.from(signature, 'base64'));
      return valid ? { valid: true } : { valid: false, reason: 'mismatch' };
    },
  };
}
