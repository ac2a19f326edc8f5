import { pause } from '../../delivery/pause.js';
import type { Run } from '../../delivery/runs/index.js';
import { workRun } from '../../delivery/runs/index.js';
import { newInstanceId } from '../../lease/instance-id.js';
import type { Session } from './session.js';

const lookMs = 500;
/** A shell that is closed gives the run to others soon. */
const claimMs = 10_000;

/**
 * Works the run off here unless an instance of the application does, and shows how far it is, until it ends or `signal`
 * aborts. Then the run goes on elsewhere, or when somebody follows it again.
 */
export async function followRun({ replay }: Session, id: string, signal: AbortSignal): Promise<Run | null> {
  const progress = new Progress();
  const owner = newInstanceId();
  const ending = new AbortController();
  const stop = () => ending.abort();
  signal.addEventListener('abort', stop, { once: true });
  let working: Promise<void> = Promise.resolve();
  let idle = true;
  let fault: { readonly error: unknown } | undefined;
  try {
    for (;;) {
      const run = await replay.get(id);
      if (run) progress.show(run);
      const over = run === null || run.state === 'done' || run.state === 'cancelled';
      if (over || ending.signal.aborted) return run;
      if (fault) throw fault.error;
      const store = replay.runs.find(({ name }) => name === run.box);
      const token = idle && store ? await store.claim(id, owner, claimMs) : null;
      if (store && token) {
        idle = false;
        const options = { claimMs, onFreed: async () => undefined, onStep: () => undefined };
        working = workRun(store, run, token, ending.signal, options)
          .catch((error: unknown) => {
            fault = { error };
          })
          .finally(() => {
            idle = true;
          });
      }
      await pause(lookMs, ending.signal);
    }
  } finally {
    stop();
    signal.removeEventListener('abort', stop);
    await working;
    progress.end();
  }
}

/** How far a run is, on standard error: a bar that grows on a terminal, elsewhere a line for each tenth. */
class Progress {
  private shown = -1;

  show({ selected, requeued, discarded, skipped, refused }: Run): void {
    const handled = requeued + discarded + skipped + refused;
    const share = selected === 0 ? 1 : handled / selected;
    if (process.stderr.isTTY) {
      const bar = '#'.repeat(Math.round(share * 30)).padEnd(30, '.');
      process.stderr.write(`\r[${bar}] ${handled}/${selected}`);
    } else if (Math.floor(share * 10) > this.shown) {
      this.shown = Math.floor(share * 10);
      process.stderr.write(`${handled} of ${selected}\n`);
    }
  }

  end(): void {
    if (process.stderr.isTTY) process.stderr.write('\n');
  }
}
