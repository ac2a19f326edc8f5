import { hmacVerifier } from './hmac-verifier.js';
import { type Secret, secretKeys } from './secret-keys.js';
import type { SignatureVerifier } from './signature-verifier.js';
import { SigningKeys } from './signing-keys.js';
import { refuseUnknownOptions } from './verifier-options.js';

export interface GithubOptions {
  /** The webhook's secrets; several while one is replaced. At least one, 16 bytes or more each. */
  readonly secrets: readonly Secret[];
}

/**
 * Accepts GitHub webhooks: `X-Hub-Signature-256` is `sha256=` and the hex HMAC-SHA256 of the body. The older
 * `X-Hub-Signature` (SHA-1) is ignored. GitHub signs neither a time nor the delivery id (see docs/signatures.md).
 *
 * Source: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
 * @throws InvalidOptionsError for a missing or unusable secret or an unknown option
 */
export function github(options: GithubOptions): SignatureVerifier {
  refuseUnknownOptions(options, ['secrets'], 'github');
  return hmacVerifier({
    name: 'github',
    idHeader: 'x-github-delivery',
    header: 'x-hub-signature-256',
    prefix: 'sha256=',
    encoding: 'hex',
    keys: new SigningKeys('sha256', secretKeys(options.secrets, 'github.secrets')),
  });
}
