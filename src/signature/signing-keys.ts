import { createHmac, type KeyObject, timingSafeEqual } from 'node:crypto';

/** Hash functions for HMAC. `sha1` is for old senders only: as an HMAC it still holds, but nothing new should choose it. */
export type HmacAlgorithm = 'sha1' | 'sha256' | 'sha384' | 'sha512';

export const hmacAlgorithms: readonly HmacAlgorithm[] = ['sha1', 'sha256', 'sha384', 'sha512'];

/**
 * The secrets of one source and the only place where signatures are compared. The keys are `KeyObject`s in a private
 * field: neither `util.inspect` nor JSON nor a log line can print them.
 */
export class SigningKeys {
  readonly #algorithm: HmacAlgorithm;
  readonly #keys: readonly KeyObject[];

  /** @param keys at least one */
  constructor(algorithm: HmacAlgorithm, keys: readonly KeyObject[]) {
    this.#algorithm = algorithm;
    this.#keys = keys;
  }

  /**
   * Whether one of the presented digests is the HMAC of the signed bytes under one of the keys.
   * Every key is tried against every digest, also after a match: the time taken does not tell which key is in use.
   *
   * @param signed the parts of what was signed, in order; read once per key, so no one-shot iterator
   * @param presented what the sender claims, read once per key; a digest of another length never matches
   */
  matches(signed: Iterable<Uint8Array>, presented: Iterable<Buffer>): boolean {
    let matched = false;
    for (const key of this.#keys) {
      const hmac = createHmac(this.#algorithm, key);
      for (const part of signed) hmac.update(part);
      const digest = hmac.digest();
      for (const candidate of presented) matched = equalDigests(digest, candidate) || matched;
    }
    return matched;
  }
}

/** The length of a digest is public. `timingSafeEqual` throws on unequal lengths, so it is never asked about them. */
function equalDigests(expected: Buffer, presented: Buffer): boolean {
  return expected.length === presented.length && timingSafeEqual(expected, presented);
}
