import { hmacVerifier } from './hmac-verifier.js';
import { type Secret, secretKeys } from './secret-keys.js';
import type { SignatureVerifier } from './signature-verifier.js';
import { SigningKeys } from './signing-keys.js';
import { refuseUnknownOptions } from './verifier-options.js';

export interface ShopifyOptions {
  /** The app's client secrets; the old and the new one while it is rotated. At least one, 16 bytes or more each. */
  readonly secrets: readonly Secret[];
}

/**
 * Accepts Shopify webhooks: `X-Shopify-Hmac-SHA256` is the base64 HMAC-SHA256 of the body under the app's client secret.
 * Shopify signs neither a time nor the webhook id (see docs/signatures.md).
 *
 * Source: https://shopify.dev/docs/apps/build/webhooks/verify-deliveries
 * @throws InvalidOptionsError for a missing or unusable secret or an unknown option
 */
export function shopify(options: ShopifyOptions): SignatureVerifier {
  refuseUnknownOptions(options, ['secrets'], 'shopify');
  return hmacVerifier({
    name: 'shopify',
    idHeader: 'x-shopify-webhook-id',
    header: 'x-shopify-hmac-sha256',
    prefix: '',
    encoding: 'base64',
    keys: new SigningKeys('sha256', secretKeys(options.secrets, 'shopify.secrets')),
  });
}
