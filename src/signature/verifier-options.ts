import { InvalidOptionsError } from '../errors/invalid-options.error.js';

/**
 * Refuses an option that does not exist: `github({ secret })` or a misspelt `tolerance` would otherwise be ignored.
 * @param path the function's name, for example `github`
 * @throws InvalidOptionsError
 */
export function refuseUnknownOptions(options: object, known: readonly string[], path: string): void {
  if (typeof options !== 'object' || options === null) {
    throw new InvalidOptionsError(path, options, 'write an object with its options: { secrets: [...] }');
  }
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown === undefined) return;
  const expected = `this option does not exist; the options are ${known.join(', ')}`;
  throw new InvalidOptionsError(`${path}.${unknown}`, undefined, expected);
}

/**
 * One of a few words.
 * @throws InvalidOptionsError for any other value
 */
export function oneOf<T extends string>(value: T, allowed: readonly T[], path: string): T {
  if (allowed.includes(value)) return value;
  throw new InvalidOptionsError(path, value, `write ${allowed.map((word) => `'${word}'`).join(' or ')}`);
}

const fieldName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/;

/**
 * A header's name in lower case, as Node gives it.
 * @throws InvalidOptionsError for text that cannot be a header's name
 */
export function headerName(value: string, path: string): string {
  const name = typeof value === 'string' ? value.toLowerCase() : '';
  if (fieldName.test(name)) return name;
  throw new InvalidOptionsError(path, value, "write the name of a header, for example 'x-signature'");
}
