/** What intake returns for one message, after its commit. */
export interface Receipt {
  /** Id of the stored message, of the first copy for a duplicate; null when it was ignored. */
  readonly id: string | null;
  readonly duplicate: boolean;
  readonly status: 'stored' | 'duplicate' | 'ignored';
}

/** What the sender is answered. */
export interface PushResponse {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON, text as it is. */
  readonly body?: unknown;
}
