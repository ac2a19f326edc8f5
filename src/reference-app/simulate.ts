import { setTimeout as sleep } from 'node:timers/promises';
import { PermanentFailureError } from '../index.js';

/** What a payload may ask for with SIMULATE=true, to show how trouble is handled. */
export interface Simulation {
  /** The first so many attempts fail. */
  readonly failTimes?: number;
  readonly sleepMs?: number;
  readonly blockLoopMs?: number;
  /** Ends the process as a crash would. */
  readonly crash?: boolean;
  readonly permanent?: boolean;
}

interface SimulationContext {
  readonly attempt: number;
  readonly signal: AbortSignal;
}

/** Does what the payload asks for; nothing when the application does not simulate. */
export async function simulate(enabled: boolean, payload: unknown, ctx: SimulationContext): Promise<void> {
  const wanted = (payload as { simulate?: Simulation } | null)?.simulate;
  if (!enabled || typeof wanted !== 'object' || wanted === null) return;
  if (wanted.crash) process.kill(process.pid, 'SIGKILL');
  if (wanted.blockLoopMs) block(wanted.blockLoopMs);
  if (wanted.sleepMs) await sleep(wanted.sleepMs, undefined, { signal: ctx.signal });
  if (wanted.permanent) throw new PermanentFailureError('simulated: permanent', { kind: 'simulated' });
  if (ctx.attempt <= (wanted.failTimes ?? 0))
    throw new Error(`simulated: attempt ${ctx.attempt} of ${wanted.failTimes} that fail`);
}

function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}
