import type { Duration } from '../config/duration.js';
import { decodeDigest } from './digest-text.js';
import { type Reading, readHeader, readListHeader } from './header-reading.js';
import type { Secret } from './secret-keys.js';
import { refused, type SignatureVerifier, type SignedRequest, type Verification } from './signature-verifier.js';
import { SigningKeys } from './signing-keys.js';
import { standardWebhooksKeys } from './standard-webhooks-secret.js';
import { defaultTolerance, type TimestampWindow, timestampRefusal, timestampWindow } from './timestamp-window.js';
import { oneOf, refuseUnknownOptions } from './verifier-options.js';

export interface StandardWebhooksOptions {
  /** The sender's secrets: `whsec_` and base64. Several while one is rotated; at least one. Bytes are used as the key. */
  readonly secrets: readonly Secret[];
  /** How far the signed time may be from now, before or after. Default 5m, at least 1s, never off. */
  readonly tolerance?: Duration;
  /** What the three header names begin with. Default `webhook`; `svix` for senders that kept the older names. */
  readonly headerPrefix?: 'webhook' | 'svix';
}

/**
 * Accepts webhooks signed by the Standard Webhooks specification, version `v1` (HMAC-SHA256). `webhook-signature` holds
 * `v1,<base64>` entries, separated by spaces, over `<webhook-id>.<webhook-timestamp>.<body>`. One match is enough.
 * Entries of other versions, such as the asymmetric `v1a`, are skipped. The id and the time are signed.
 *
 * Source: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
 * @throws InvalidOptionsError for a missing or unusable secret, a bad tolerance or an unknown option
 */
export function standardWebhooks(options: StandardWebhooksOptions): SignatureVerifier {
  refuseUnknownOptions(options, ['secrets', 'tolerance', 'headerPrefix'], 'standardWebhooks');
  const { secrets, tolerance = defaultTolerance, headerPrefix = 'webhook' } = options;
  const names = headerNames(oneOf(headerPrefix, ['webhook', 'svix'], 'standardWebhooks.headerPrefix'));
  const keys = new SigningKeys('sha256', standardWebhooksKeys(secrets));
  const window = timestampWindow(tolerance, 's', 'standardWebhooks.tolerance');
  return Object.freeze({
    name: 'standard-webhooks',
    idHeader: names.id,
    verify: (request: SignedRequest, nowMs: number) => verify(request, nowMs, names, keys, window),
  });
}

interface HeaderNames {
  readonly id: string;
  readonly timestamp: string;
  readonly signature: string;
}

function headerNames(prefix: string): HeaderNames {
  return { id: `${prefix}-id`, timestamp: `${prefix}-timestamp`, signature: `${prefix}-signature` };
}

function verify(
  { headers, rawBody }: SignedRequest,
  nowMs: number,
  names: HeaderNames,
  keys: SigningKeys,
  window: TimestampWindow,
): Verification {
  const id = readId(headers, names.id);
  if (!id.valid) return id;
  const timestamp = readHeader(headers, names.timestamp);
  if (!timestamp.valid) return timestamp;
  const digests = readDigests(headers, names.signature);
  if (!digests.valid) return digests;
  const refusal = timestampRefusal(timestamp.value, nowMs, window);
  if (refusal !== null) return refused(refusal);
  const signed = [Buffer.from(`${id.value}.${timestamp.value}.`), rawBody];
  return keys.matches(signed, digests.value) ? { valid: true } : refused('mismatch');
}

const visibleAscii = /^[\x21-\x7e]+$/;

/**
 * `id.timestamp.body` has no other marks than its dots. An id that holds a time of its own ('msg_1.1614265330') could be
 * another message's id and time, with this message's time taken from the start of that one's body: the same signature
 * would then be good for a second id, and later. Other dots cannot move a time and are accepted.
 */
const timeInsideId = /\.[0-9]{10}(?:\.|$)/;

function readId(headers: SignedRequest['headers'], name: string): Reading<string> {
  const id = readHeader(headers, name);
  if (!id.valid) return id;
  return visibleAscii.test(id.value) && !timeInsideId.test(id.value) ? id : refused('malformed');
}

function readDigests(headers: SignedRequest['headers'], name: string): Reading<readonly Buffer[]> {
  const header = readListHeader(headers, name);
  if (!header.valid) return header;
  const entries = header.value.split(' ').filter((entry) => entry !== '');
  // Two joined headers leave a comma at the end of an entry: 'v1,<base64>, v1,<base64>'.
  if (entries.some((entry) => entry.endsWith(',') || entry.startsWith(','))) return refused('repeated-header');
  const signatures = entries.filter((entry) => entry.startsWith('v1,'));
  if (signatures.some((entry) => entry.indexOf(',') !== entry.lastIndexOf(','))) return refused('repeated-header');
  if (signatures.length === 0)
    return refused(entries.some((entry) => entry.includes(',')) ? 'unsupported-scheme' : 'malformed');
  const digests = signatures.map((entry) => decodeDigest(entry.slice(3), 'base64')).filter((digest) => digest !== null);
  return digests.length > 0 ? { valid: true, value: digests } : refused('malformed');
}
