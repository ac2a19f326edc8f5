/**
 * What a verifier sees of a push. Node's `IncomingHttpHeaders` fits as it is: names in lower case, values as Node joined
 * them. `rawBody` holds the bytes as they were signed, before any parser touched them; an empty body is an empty Buffer.
 */
export interface SignedRequest {
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>;
  readonly rawBody: Buffer;
}

/**
 * Why a push was refused. The words are stable: they go into logs and metrics, never into the answer to the sender.
 *
 * - `missing-header`: a header that the scheme needs is absent or empty.
 * - `repeated-header`: it came twice, so two readers could disagree about which one counts.
 * - `malformed`: it is there, but not in the form that the scheme writes.
 * - `unsupported-scheme`: it holds signatures, but none of the version that is checked here.
 * - `outside-tolerance`: the signed time is too far from now, in either direction.
 * - `mismatch`: no secret gives this signature for these bytes.
 */
export type SignatureRefusal =
  | 'missing-header'
  | 'repeated-header'
  | 'malformed'
  | 'unsupported-scheme'
  | 'outside-tolerance'
  | 'mismatch';

/** The refused half of a {@link Verification}. */
export interface Refused {
  readonly valid: false;
  readonly reason: SignatureRefusal;
}

/** The answer of a verifier. A refusal is a value: whatever a sender wrote, nothing is thrown. */
export type Verification = { readonly valid: true } | Refused;

/**
 * Decides whether a push comes from who holds the secret. Implement it for a scheme that is not built in.
 *
 * `verify` is called once per push, before anything of it is parsed or stored. It must not throw or reject because of
 * what the sender wrote. A throw means that the verifier itself is broken.
 */
export interface SignatureVerifier {
  /** Short name for logs and metrics, for example `github`. */
  readonly name: string;
  /** @param nowMs milliseconds since the epoch, the receiver's clock */
  verify(request: SignedRequest, nowMs: number): Verification | Promise<Verification>;
  /** Lower-case name of the header in which the scheme carries the sender's message id. Absent: it carries none. */
  readonly idHeader?: string;
}

/** A refusal with its reason. */
export function refused(reason: SignatureRefusal): Refused {
  return { valid: false, reason };
}
