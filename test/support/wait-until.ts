import { setTimeout as delay } from 'node:timers/promises';

export interface WaitOptions {
  /** What is waited for, for the error: `the second instance holds the lane`. */
  readonly what: string;
  /** Default 10 s. A promise of the code under test that takes longer is broken, whatever the machine. */
  readonly timeoutMs?: number;
  /** Pause between two looks. Default 20 ms. */
  readonly intervalMs?: number;
}

/** What is left of a type once it is known to be truthy. */
export type Truthy<T> = Exclude<T, undefined | null | false | 0 | ''>;

/**
 * Looks at `condition` again and again until it gives something truthy, and returns that.
 *
 * A condition that throws counts as "not yet", so that it may ask a server that is just starting.
 *
 * @throws Error naming `what` after `timeoutMs`, with the condition's last value, or its last error as `cause`.
 */
export async function waitUntil<T>(condition: () => T | Promise<T>, options: WaitOptions): Promise<Truthy<T>> {
  const { what, timeoutMs = 10_000, intervalMs = 20 } = options;
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const look = await attempt(condition);
    if (look.error === undefined && look.value) return look.value as Truthy<T>;
    if (performance.now() >= deadline) {
      const seen =
        look.error === undefined ? `last seen: ${JSON.stringify(look.value)}` : `last error: ${String(look.error)}`;
      throw new Error(`waited ${timeoutMs} ms in vain until ${what} (${seen})`, { cause: look.error });
    }
    await delay(intervalMs);
  }
}

type Look<T> = { readonly value: T; readonly error?: never } | { readonly value?: never; readonly error: unknown };

async function attempt<T>(condition: () => T | Promise<T>): Promise<Look<T>> {
  try {
    return { value: await condition() };
  } catch (error) {
    return { error: error ?? new Error('the condition threw nothing') };
  }
}
