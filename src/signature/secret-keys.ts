import { createSecretKey, type KeyObject } from 'node:crypto';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';

/**
 * A shared secret: the text as the sender gave it, or the key's bytes. Bytes are copied and used as they are.
 * Never write one into code; read it from the environment or a secret store.
 */
export type Secret = string | Uint8Array;

/**
 * Below this a secret can be guessed from one captured push, offline and without a trace. Larger would shut out
 * senders that hand out 128-bit keys.
 */
const shortestSecretBytes = 16;

/**
 * One key per secret, in the order given.
 *
 * @param path the option's path, for example `github.secrets`
 * @param keyBytes how this scheme turns the text into key bytes; null when the text is not what the scheme hands out
 * @param expectedText what to write when `keyBytes` gives null
 * @throws InvalidOptionsError for an empty list and for an unset, empty, unreadable or short secret. It names the path
 *   and never holds the secret, not even as data.
 */
export function secretKeys(
  secrets: readonly Secret[],
  path: string,
  keyBytes: (text: string) => Uint8Array | null = (text) => Buffer.from(text, 'utf8'),
  expectedText = '',
): readonly KeyObject[] {
  const list: unknown = secrets;
  if (!Array.isArray(list)) {
    throw new InvalidOptionsError(path, typeof list, 'write a list: [process.env.WEBHOOK_SECRET]');
  }
  if (list.length === 0) {
    throw new InvalidOptionsError(
      path,
      'an empty list',
      'write at least one secret: without one every push is refused',
    );
  }
  return Array.from(list, (secret: unknown, index) => secretKey(secret, `${path}[${index}]`, keyBytes, expectedText));
}

function secretKey(
  secret: unknown,
  path: string,
  keyBytes: (text: string) => Uint8Array | null,
  expectedText: string,
): KeyObject {
  if (secret === undefined || secret === null || secret === '') {
    throw new InvalidOptionsError(path, undefined, 'write the secret here; is its environment variable set?');
  }
  const isBytes = secret instanceof Uint8Array;
  if (!isBytes && typeof secret !== 'string') {
    throw new InvalidOptionsError(path, typeof secret, 'write the secret as text or as bytes');
  }
  if (!isBytes && secret.trim() !== secret) {
    throw new InvalidOptionsError(
      path,
      'text',
      'remove the white space around the secret (a line end read from a file?)',
    );
  }
  const bytes = isBytes ? secret : keyBytes(secret);
  if (bytes === null) throw new InvalidOptionsError(path, 'text', expectedText);
  if (bytes.length < shortestSecretBytes) {
    const expected = `write a secret of at least ${shortestSecretBytes} bytes; this one has ${bytes.length}`;
    throw new InvalidOptionsError(path, 'a short secret', expected);
  }
  return createSecretKey(bytes);
}
