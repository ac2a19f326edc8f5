import type { Duration } from '../config/duration.js';
import { decodeDigest } from './digest-text.js';
import { type Reading, readListHeader } from './header-reading.js';
import { type Secret, secretKeys } from './secret-keys.js';
import { refused, type SignatureVerifier, type SignedRequest, type Verification } from './signature-verifier.js';
import { SigningKeys } from './signing-keys.js';
import { defaultTolerance, type TimestampWindow, timestampRefusal, timestampWindow } from './timestamp-window.js';
import { refuseUnknownOptions } from './verifier-options.js';

export interface StripeOptions {
  /** The endpoint's signing secrets, `whsec_` included: Stripe does not decode it. At least one, 16 bytes or more each. */
  readonly secrets: readonly Secret[];
  /** How far the signed `t` may be from now, before or after. Default 5m, at least 1s, never off. */
  readonly tolerance?: Duration;
}

/**
 * Accepts Stripe webhooks: `Stripe-Signature` is `t=<seconds>,v1=<hex>[,v1=<hex>]`, the HMAC-SHA256 of `<t>.<body>`.
 * Other schemes than `v1` are ignored, one `t` is allowed. Stripe sends no id header: take the event's `id` from the body
 * as the dedup key.
 *
 * Source: https://docs.stripe.com/webhooks/signature
 * @throws InvalidOptionsError for a missing or unusable secret, a bad tolerance or an unknown option
 */
export function stripe(options: StripeOptions): SignatureVerifier {
  refuseUnknownOptions(options, ['secrets', 'tolerance'], 'stripe');
  const { secrets, tolerance = defaultTolerance } = options;
  const keys = new SigningKeys('sha256', secretKeys(secrets, 'stripe.secrets'));
  const window = timestampWindow(tolerance, 's', 'stripe.tolerance');
  return Object.freeze({
    name: 'stripe',
    verify: (request: SignedRequest, nowMs: number) => verify(request, nowMs, keys, window),
  });
}

function verify(request: SignedRequest, nowMs: number, keys: SigningKeys, window: TimestampWindow): Verification {
  const header = readListHeader(request.headers, 'stripe-signature');
  if (!header.valid) return header;
  const parts = readParts(header.value);
  if (!parts.valid) return parts;
  const { timestamp, digests } = parts.value;
  const refusal = timestampRefusal(timestamp, nowMs, window);
  if (refusal !== null) return refused(refusal);
  return keys.matches([Buffer.from(`${timestamp}.`), request.rawBody], digests) ? { valid: true } : refused('mismatch');
}

interface StripeParts {
  readonly timestamp: string;
  readonly digests: readonly Buffer[];
}

function readParts(header: string): Reading<StripeParts> {
  const parts = header.split(',').map(keyAndValue);
  const timestamps = parts.filter(([key]) => key === 't');
  // Two times mean that two headers were joined, or that somebody wants us to check one and sign the other.
  if (timestamps.length > 1) return refused('repeated-header');
  const timestamp = timestamps[0]?.[1];
  if (timestamp === undefined) return refused('malformed');
  const signatures = parts.filter(([key]) => key === 'v1');
  if (signatures.length === 0) return refused('unsupported-scheme');
  const digests = signatures.map(([, value]) => decodeDigest(value, 'hex')).filter((digest) => digest !== null);
  return digests.length > 0 ? { valid: true, value: { timestamp, digests } } : refused('malformed');
}

/** Joined headers have a blank after the comma: it must not hide a second 't'. Values are taken as they stand. */
function keyAndValue(part: string): readonly [string, string] {
  const at = part.indexOf('=');
  return at < 0 ? [part.trim(), ''] : [part.slice(0, at).trim(), part.slice(at + 1)];
}
