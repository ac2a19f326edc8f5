/** Something that a test opened outside its own memory, and that has to be gone when the test file ends. */
export interface OpenResource {
  /** For the message of a failed leak check: `database mailroom_test_...`, `child 4711`. */
  readonly what: string;
  /** Ends it, whatever its state. Called by the leak check when the test file did not do so. */
  readonly close: () => Promise<void>;
}

/** What the leak check (leak-check/environment.mjs) reads when a test file is done. */
export interface Ledger {
  readonly open: Set<OpenResource>;
  /** Every database that the file created, dropped or not, with the URL of its server. */
  readonly databases: { readonly name: string; readonly serverUrl: string }[];
}

const key = Symbol.for('mailroom.test.ledger');

/** The ledger of this test file. */
export function ledger(): Ledger {
  const holder = globalThis as { [key]?: Ledger };
  holder[key] ??= { open: new Set(), databases: [] };
  return holder[key];
}

/** Enters a resource into the ledger. Call the returned function once it is closed. */
export function opened(resource: OpenResource): () => void {
  const { open } = ledger();
  open.add(resource);
  return () => open.delete(resource);
}
