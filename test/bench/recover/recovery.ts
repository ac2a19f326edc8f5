/** How long it took to go on after something was taken away, and what came of it. */
export interface Recovery {
  readonly ms: number;
  /** Messages that were acknowledged or stored and are not done, or not there. */
  readonly lost: number;
  /** Messages whose effects, or rows, are there twice. */
  readonly twice: number;
}

/** The next of `waitMs` apart, for a sender that pushes again and again. */
export function moment(waitMs: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, waitMs));
}
