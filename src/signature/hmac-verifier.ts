import { type DigestEncoding, decodeDigest } from './digest-text.js';
import { readHeader } from './header-reading.js';
import { refused, type SignatureVerifier, type SignedRequest, type Verification } from './signature-verifier.js';
import type { SigningKeys } from './signing-keys.js';
import { type TimestampWindow, timestampRefusal } from './timestamp-window.js';

/** A scheme with one signature in a header of its own and, where it signs the time, a second header for that. */
export interface HmacScheme {
  readonly name: string;
  readonly idHeader?: string | undefined;
  readonly header: string;
  readonly prefix: string;
  readonly encoding: DigestEncoding;
  readonly keys: SigningKeys;
  readonly timestamp?: SignedTimestamp | undefined;
}

export interface SignedTimestamp {
  readonly header: string;
  readonly window: TimestampWindow;
  /** The bytes that are signed, in parts, so that a large body is not copied. */
  readonly signed: (timestamp: string, rawBody: Buffer) => readonly Uint8Array[];
}

/** The verifier of such a scheme. What needs no secret is checked first: a junk request costs no hashing. */
export function hmacVerifier(scheme: HmacScheme): SignatureVerifier {
  return Object.freeze({
    name: scheme.name,
    ...(scheme.idHeader === undefined ? {} : { idHeader: scheme.idHeader }),
    verify: (request: SignedRequest, nowMs: number) => verify(scheme, request, nowMs),
  });
}

function verify(scheme: HmacScheme, { headers, rawBody }: SignedRequest, nowMs: number): Verification {
  const signature = readHeader(headers, scheme.header);
  if (!signature.valid) return signature;
  if (!signature.value.startsWith(scheme.prefix)) return refused('malformed');
  const digest = decodeDigest(signature.value.slice(scheme.prefix.length), scheme.encoding);
  if (digest === null) return refused('malformed');

  let signed: readonly Uint8Array[] = [rawBody];
  if (scheme.timestamp) {
    const timestamp = readHeader(headers, scheme.timestamp.header);
    if (!timestamp.valid) return timestamp;
    const refusal = timestampRefusal(timestamp.value, nowMs, scheme.timestamp.window);
    if (refusal !== null) return refused(refusal);
    signed = scheme.timestamp.signed(timestamp.value, rawBody);
  }
  return scheme.keys.matches(signed, [digest]) ? { valid: true } : refused('mismatch');
}
