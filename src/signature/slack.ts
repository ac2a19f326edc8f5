import type { Duration } from '../config/duration.js';
import { hmacVerifier } from './hmac-verifier.js';
import { type Secret, secretKeys } from './secret-keys.js';
import type { SignatureVerifier } from './signature-verifier.js';
import { SigningKeys } from './signing-keys.js';
import { defaultTolerance, timestampWindow } from './timestamp-window.js';
import { refuseUnknownOptions } from './verifier-options.js';

export interface SlackOptions {
  /** The app's signing secrets; several while one is replaced. At least one, 16 bytes or more each. */
  readonly secrets: readonly Secret[];
  /** How far `X-Slack-Request-Timestamp` may be from now, before or after. Default 5m, at least 1s, never off. */
  readonly tolerance?: Duration;
}

/**
 * Accepts requests from Slack: `X-Slack-Signature` is `v0=` and the hex HMAC-SHA256 of `v0:<timestamp>:<body>`.
 * Slack sends no id header: take `event_id` from the body as the dedup key.
 *
 * Source: https://docs.slack.dev/authentication/verifying-requests-from-slack
 * @throws InvalidOptionsError for a missing or unusable secret, a bad tolerance or an unknown option
 */
export function slack(options: SlackOptions): SignatureVerifier {
  refuseUnknownOptions(options, ['secrets', 'tolerance'], 'slack');
  const { secrets, tolerance = defaultTolerance } = options;
  return hmacVerifier({
    name: 'slack',
    header: 'x-slack-signature',
    prefix: 'v0=',
    encoding: 'hex',
    keys: new SigningKeys('sha256', secretKeys(secrets, 'slack.secrets')),
    timestamp: {
      header: 'x-slack-request-timestamp',
      window: timestampWindow(tolerance, 's', 'slack.tolerance'),
      signed: (timestamp, rawBody) => [Buffer.from(`v0:${timestamp}:`), rawBody],
    },
  });
}
