import { pause } from '../pause.js';
import type { Run } from './run.js';
import type { RunStore } from './run.store.js';

/** How long a run stays with an instance that gives no sign, unless told otherwise. */
export const runClaimMs = 30_000;
/** Messages that one transaction moves at most. */
const mostPerStep = 100;
/** A slow run looks so often whether it was cancelled, and says that it lives. */
const beatMs = 1_000;
/** The first seconds go slower: a rate of a tenth grows to the whole. */
const rampMs = 5_000;

export interface RunWorkerOptions {
  /** How long the run stays ours without a sign. Default 30 s; too small: a slow step loses it. */
  readonly claimMs?: number;
  /** Order units of messages that were taken out of the table. */
  readonly onFreed: (opens: readonly string[]) => Promise<void>;
  /** After each step: messages are due again. */
  readonly onStep: (run: string, handled: number) => void;
}

/**
 * Works a run off at its rate until it is done, cancelled, taken over or `signal` aborts. Another instance goes on with it
 * then, from the message after the last one that was moved.
 */
export async function workRun(
  store: RunStore,
  run: Run,
  token: Buffer,
  signal: AbortSignal,
  { claimMs = runClaimMs, onFreed, onStep }: RunWorkerOptions,
): Promise<void> {
  const startedAt = performance.now();
  let allowed = 0;
  let at = startedAt;
  let beatAt = startedAt;
  while (!signal.aborted) {
    const now = performance.now();
    const rate = run.ratePerSecond * Math.min(1, 0.1 + (0.9 * (now - startedAt)) / rampMs);
    allowed = Math.min(mostPerStep, allowed + ((now - at) / 1000) * rate);
    at = now;
    if (now - beatAt >= Math.min(beatMs, claimMs / 3)) {
      // Also a slow run must notice soon that it was cancelled.
      if (!(await store.beat(run.id, token, claimMs))) return;
      beatAt = now;
    }
    if (allowed < 1) {
      await pause(Math.min(beatMs, claimMs / 3, Math.max(5, ((1 - allowed) / rate) * 1000)), signal);
      continue;
    }
    const step = await store.step(run, token, Math.floor(allowed), claimMs);
    if (step.freed.length > 0) await onFreed(step.freed);
    if (step.handled > 0) onStep(run.id, step.handled);
    if (!step.going) return;
    allowed -= step.handled;
  }
}
