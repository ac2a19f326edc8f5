import type { Duration } from '../config/duration.js';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';
import type { DigestEncoding } from './digest-text.js';
import { hmacVerifier, type SignedTimestamp } from './hmac-verifier.js';
import { type Secret, secretKeys } from './secret-keys.js';
import type { SignatureVerifier } from './signature-verifier.js';
import { type HmacAlgorithm, hmacAlgorithms, SigningKeys } from './signing-keys.js';
import { defaultTolerance, type TimestampUnit, timestampWindow } from './timestamp-window.js';
import { headerName, oneOf, refuseUnknownOptions } from './verifier-options.js';

export interface HmacSignatureOptions {
  /** The shared secrets; several while one is rotated. Text is used as UTF-8, bytes as they are. 16 bytes or more each. */
  readonly secrets: readonly Secret[];
  /** The header that carries the signature, for example `x-signature`. */
  readonly header: string;
  /** What stands before the signature in the header, for example `sha256=`. Default nothing. No comma. */
  readonly prefix?: string;
  readonly algorithm: HmacAlgorithm;
  /** How the signature is written. Hex may be in either case, base64 is the padded alphabet with + and /. */
  readonly encoding: DigestEncoding;
  /** The time that the sender signs. Default none: the body alone is signed, and only dedup stops a repeated push. */
  readonly timestamp?: HmacTimestampOptions;
  /** The header that carries the sender's message id. Default none. It is not signed unless `payload` makes it so. */
  readonly idHeader?: string;
  /** Name in logs and metrics. Default `hmac`. */
  readonly name?: string;
}

export interface HmacTimestampOptions {
  /** The header that carries the time as a whole number. */
  readonly header: string;
  /** How far it may be from now, before or after. Default 5m, at least one `unit`, never off. */
  readonly tolerance?: Duration;
  /** `s` or `ms` since 1970. A sender that writes the other one is refused. */
  readonly unit: TimestampUnit;
  /**
   * The bytes that the sender signs, from the header's text and the body. It must contain both: a time that is not signed
   * can be replaced by anybody. A throw in here is a fault of the verifier, not a refusal.
   */
  readonly payload: (timestamp: string, rawBody: Buffer) => Uint8Array;
}

/**
 * Accepts pushes that carry an HMAC in a header, for senders without a scheme of their own here.
 * @throws InvalidOptionsError for a missing or unusable secret, a bad or unknown option
 */
export function hmacSignature(options: HmacSignatureOptions): SignatureVerifier {
  const path = 'hmacSignature';
  refuseUnknownOptions(
    options,
    ['secrets', 'header', 'prefix', 'algorithm', 'encoding', 'timestamp', 'idHeader', 'name'],
    path,
  );
  const { secrets, prefix = '', name = 'hmac', idHeader, timestamp } = options;
  if (typeof prefix !== 'string' || prefix.includes(',')) {
    throw new InvalidOptionsError(
      `${path}.prefix`,
      prefix,
      'write text without a comma: a comma is how repeated headers are found out',
    );
  }
  if (typeof name !== 'string' || name === '') {
    throw new InvalidOptionsError(
      `${path}.name`,
      name,
      "write a short name for logs and metrics, for example 'order-center'",
    );
  }
  const algorithm = oneOf(options.algorithm, hmacAlgorithms, `${path}.algorithm`);
  return hmacVerifier({
    name,
    idHeader: idHeader === undefined ? undefined : headerName(idHeader, `${path}.idHeader`),
    header: headerName(options.header, `${path}.header`),
    prefix,
    encoding: oneOf(options.encoding, ['hex', 'base64'], `${path}.encoding`),
    keys: new SigningKeys(algorithm, secretKeys(secrets, `${path}.secrets`)),
    timestamp: timestamp === undefined ? undefined : signedTimestamp(timestamp, `${path}.timestamp`),
  });
}

function signedTimestamp(options: HmacTimestampOptions, path: string): SignedTimestamp {
  refuseUnknownOptions(options, ['header', 'tolerance', 'unit', 'payload'], path);
  const { header, tolerance = defaultTolerance, payload } = options;
  const unit = oneOf(options.unit, ['s', 'ms'], `${path}.unit`);
  if (typeof payload !== 'function') {
    throw new InvalidOptionsError(
      `${path}.payload`,
      payload,
      'write a function: (timestamp, rawBody) => the signed bytes',
    );
  }
  return {
    header: headerName(header, `${path}.header`),
    window: timestampWindow(tolerance, unit, `${path}.tolerance`),
    signed: (timestamp, rawBody) => [payload(timestamp, rawBody)],
  };
}
