/** What became of one attempt. `error` is what is stored and shown; it never holds the message's body. */
export type Outcome =
  | { readonly kind: 'success' }
  /** Due again after `delayMs`; the attempt stays counted. */
  | { readonly kind: 'retry'; readonly delayMs: number; readonly error: StoredError }
  /** Terminal: a person decides. */
  | { readonly kind: 'failed'; readonly error: StoredError }
  /** Not started, or given back at shutdown: due at once, the attempt is taken off again. */
  | { readonly kind: 'released' };

export interface StoredError {
  readonly kind: string;
  readonly message: string;
}

/** Lengths of the columns `error_kind` (ASCII) and `error_message` (characters). */
const kindLength = 64;
const messageLength = 500;

/**
 * An error as it is stored: a kind to group by and a text cut to fit on a character boundary. A handler may throw
 * anything, so anything is accepted.
 */
export function storedError(thrown: unknown, kind?: string): StoredError {
  return { kind: fingerprint(kind ?? kindOf(thrown)), message: cut(textOf(thrown)) };
}

function kindOf(thrown: unknown): string {
  if (!(thrown instanceof Error)) return 'non-error';
  const named = thrown as { kind?: unknown; code?: unknown };
  if (typeof named.kind === 'string') return named.kind;
  if (typeof named.code === 'string') return named.code;
  return thrown.name || 'Error';
}

function textOf(thrown: unknown): string {
  try {
    if (thrown instanceof Error) return thrown.message || thrown.name;
    return typeof thrown === 'string' ? thrown : `a handler threw ${thrown === null ? 'null' : typeof thrown}`;
  } catch {
    // A getter of a foreign error may throw itself.
    return 'unreadable error';
  }
}

function fingerprint(kind: string): string {
  return kind.replace(/[^\x21-\x7e]+/g, '_').slice(0, kindLength) || 'Error';
}

/** The column counts code points, JavaScript counts UTF-16 units, and a pair must not be cut in half. */
function cut(text: string): string {
  if (text.length <= messageLength) return text.toWellFormed();
  return Array.from(text.slice(0, messageLength * 2).toWellFormed())
    .slice(0, messageLength)
    .join('');
}
