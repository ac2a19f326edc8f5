/** A door that a test opens: what awaits `opened` stands still until then. */
export interface Gate {
  /** Resolves once the gate is open; at once when it already is. */
  readonly opened: Promise<void>;
  readonly isOpen: boolean;
  /** Opening it again does nothing. */
  open(): void;
}

/** A closed gate, to hold code under test at a known step. */
export function gate(): Gate {
  let isOpen = false;
  let resolve: () => void = () => undefined;
  const opened = new Promise<void>((settle) => {
    resolve = settle;
  });
  return {
    opened,
    get isOpen() {
      return isOpen;
    },
    open() {
      isOpen = true;
      resolve();
    },
  };
}
