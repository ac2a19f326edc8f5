/** How a scheme writes a digest into a header. `base64` is the alphabet with + and /, padded. */
export type DigestEncoding = 'hex' | 'base64';

/**
 * The bytes of a digest as written in a header, or null when the text is not exactly that encoding. Node's decoders skip
 * what they do not know, so 'ab\u{1F512}cd' would otherwise count as 'abcd'. Any length: the comparison decides on it.
 */
export function decodeDigest(text: string, encoding: DigestEncoding): Buffer | null {
  const bytes = Buffer.from(text, encoding);
  // Hex digits mean the same in both cases; base64 has one spelling per digest.
  const spelling = encoding === 'hex' ? text.toLowerCase() : text;
  return bytes.length > 0 && bytes.toString(encoding) === spelling ? bytes : null;
}
