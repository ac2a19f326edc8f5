import type { KeyObject } from 'node:crypto';
import { type Secret, secretKeys } from './secret-keys.js';

const prefix = 'whsec_';

/** What the specification asks of a sender: 192 bits or more. Shorter keys of 128 bits or more are sound, so they work. */
const specifiedBytes = 24;

/**
 * The keys of Standard Webhooks secrets: base64, with or without `whsec_` before it, as the specification's own libraries
 * read them. Warns once per key below 24 bytes (code `MAILROOM_SHORT_SECRET`): only the sender can change that.
 * @throws InvalidOptionsError as `secretKeys` does, and for text that is not base64
 */
export function standardWebhooksKeys(secrets: readonly Secret[]): readonly KeyObject[] {
  const path = 'standardWebhooks.secrets';
  const keys = secretKeys(
    secrets,
    path,
    decodeSecret,
    "write the sender's secret: 'whsec_' and base64; bytes for a raw key",
  );
  keys.forEach((key, index) => {
    const bytes = key.symmetricKeySize ?? 0;
    if (bytes < specifiedBytes) warnAboutShortSecret(`${path}[${index}]`, bytes);
  });
  return keys;
}

/** Padding may be left out. The alphabet and the spare bits are strict: a typing error must not become another key. */
function decodeSecret(text: string): Buffer | null {
  const encoded = (text.startsWith(prefix) ? text.slice(prefix.length) : text).replace(/={1,2}$/, '');
  const bytes = Buffer.from(encoded, 'base64');
  return bytes.toString('base64').replace(/=+$/, '') === encoded ? bytes : null;
}

function warnAboutShortSecret(path: string, bytes: number): void {
  process.emitWarning(
    `${path} has ${bytes} bytes; the Standard Webhooks specification asks for ${specifiedBytes} or more: ask the sender for a new one`,
    { type: 'MailroomWarning', code: 'MAILROOM_SHORT_SECRET' },
  );
}
