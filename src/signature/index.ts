/**
 * Signatures: is this push from who holds the secret, and are these the bytes that were signed?
 *
 * Reading order: `signature-verifier.ts` (the contract), `standard-webhooks.ts` and `stripe.ts` (schemes with several
 * signatures in one header), `hmac-verifier.ts` (one signature in one header: GitHub, Slack, Shopify and `hmac.ts` are
 * tables for it), then what they share: `header-reading.ts`, `timestamp-window.ts`, `signing-keys.ts`, `secret-keys.ts`.
 *
 * Flow: read the headers -> refuse what is missing, repeated or malformed -> is the signed time near now? -> HMAC over the
 * raw bytes with every secret -> compare in constant time. What costs nothing comes first, hashing last.
 *
 * Guaranteed
 * - A push is valid only if one of the secrets gives one of its signatures for exactly these bytes, and its signed time
 *   lies inside the tolerance. The tolerance has no off.
 * - Nothing that a sender writes makes a verifier throw. Each refusal has a stable reason, and the sender is not told it.
 * - A header that came twice is refused: nobody can have checked one copy while somebody else uses the other.
 * - All secrets are tried, whichever matches. A missing, empty or short secret stops the application at start-up, and no
 *   secret appears in an error, in `util.inspect` or in JSON.
 *
 * Not promised
 * - Replay protection. The tolerance bounds how long a captured push works; inside it, and for schemes that sign no time
 *   (GitHub, Shopify, HMAC without timestamp) for ever, the dedup key is what stops it. GitHub and Shopify do not sign
 *   their id header either: who holds a captured push can send it under another id. Where that matters, take the dedup key
 *   from the body.
 * - Anything about the content. A signed body may still be wrong, old or out of order.
 * - Decompression. The bytes given are the bytes checked: the intake passes the body as it received it, so a gzip body must
 *   have been signed after compression.
 * - A second check later. A stored message was verified once, at the door; replays do not verify again.
 */
export type { DigestEncoding } from './digest-text.js';
export { type GithubOptions, github } from './github.js';
export { type HmacSignatureOptions, type HmacTimestampOptions, hmacSignature } from './hmac.js';
export type { Secret } from './secret-keys.js';
export { type ShopifyOptions, shopify } from './shopify.js';
export type {
  Refused,
  SignatureRefusal,
  SignatureVerifier,
  SignedRequest,
  Verification,
} from './signature-verifier.js';
export type { HmacAlgorithm } from './signing-keys.js';
export { type SlackOptions, slack } from './slack.js';
export { type StandardWebhooksOptions, standardWebhooks } from './standard-webhooks.js';
export { type StripeOptions, stripe } from './stripe.js';
export type { TimestampUnit } from './timestamp-window.js';
