import { type Refused, refused, type SignedRequest } from './signature-verifier.js';

/** A part of the request that could be read, or the refusal that ends the verification. */
export type Reading<T> = { readonly valid: true; readonly value: T } | Refused;

/**
 * The value of a header that may stand in a request once.
 *
 * Node joins repeated headers with a comma, and so may a proxy (RFC 9110, 5.3). A comma therefore means that the header
 * came twice: picking one of the two values would let a proxy and this check disagree about what was verified.
 */
export function readHeader(headers: SignedRequest['headers'], name: string): Reading<string> {
  const reading = readListHeader(headers, name);
  return reading.valid && reading.value.includes(',') ? refused('repeated-header') : reading;
}

/** The same for a header whose own syntax uses commas. The caller finds out whether two of them were joined. */
export function readListHeader(headers: SignedRequest['headers'], name: string): Reading<string> {
  // Own properties only: a header that is called 'constructor' must not find the one of Object.
  const field: unknown = Object.hasOwn(headers, name) ? headers[name] : undefined;
  if (Array.isArray(field) && field.length > 1) return refused('repeated-header');
  const value: unknown = Array.isArray(field) ? field[0] : field;
  if (value === undefined || value === '') return refused('missing-header');
  return typeof value === 'string' ? { valid: true, value } : refused('malformed');
}
