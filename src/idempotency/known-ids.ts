import { hash } from 'node:crypto';

/** Under which id a key was stored, as far as memory knows. A cache only: the table decides. */
export interface KnownIds {
  /** Null: not known here, ask the table. Never rejects, and waits no longer than the deadline of a look-up. */
  find(key: string): Promise<string | null>;
  /** The key is stored under this id. Call it after the commit only. Never throws, and nobody waits for it. */
  remember(key: string, id: string): void;
  close(): void;
}

/**
 * Names a key of a scope (a source, a consumer): the same text for the same bytes, and for nothing else. The bytes are
 * hashed, so names are short and tell nothing about the key.
 */
export function knownKey(scope: string, key: Buffer): string {
  return `${scope}:${hash('sha256', key, 'base64url')}`;
}
