import type { ControlPool } from '../database/index.js';
import type { EntityOrderStore } from '../delivery/index.js';
import { outboxRunBox, type Run, RunStore, runClaimMs, type Selection, workRun } from '../delivery/runs/index.js';
import { InvalidSelectionError } from '../errors/invalid-selection.error.js';

/** A retry or discard by a person is done at once; the bound keeps it from starving the relay. */
const ratePerSecond = 2_000;

/** Who does something to messages, and why: kept with the run. */
export interface Audit {
  /** 1 to 128 characters. */
  readonly actor: string;
  /** 1 to 500 characters. */
  readonly reason: string;
}

/** What people do to messages that are dead, as recorded runs. */
export class OutboxRuns {
  private readonly store: RunStore;

  constructor(
    pool: ControlPool,
    private readonly owner: string,
    private readonly order: EntityOrderStore,
    private readonly wake: () => void,
  ) {
    this.store = new RunStore(pool, outboxRunBox);
  }

  /** Creates a run and works it off here. An instance that has the replay module goes on with it if this one ends. */
  async run(action: 'replay' | 'discard', selection: Selection, { actor, reason }: Audit): Promise<Run> {
    const request = {
      action,
      actor: words('actor', actor, 128),
      reason: words('reason', reason, 500),
      ratePerSecond,
      keepOrder: false,
      maxReplays: null,
    };
    const id = await this.store.create(selection, request);
    const token = await this.store.claim(id, this.owner, runClaimMs);
    const run = await this.store.get(id);
    if (token && run) {
      await workRun(this.store, run, token, new AbortController().signal, {
        onFreed: async (opens) => {
          for (const open of opens) await this.order.comeBack(open);
        },
        onStep: () => this.wake(),
      });
    }
    const done = await this.store.get(id);
    if (!done) throw new Error(`run ${id} is not there any more`);
    return done;
  }
}

function words(field: string, value: unknown, atMost: number): string {
  if (typeof value !== 'string' || value.trim() === '' || value.length > atMost)
    throw new InvalidSelectionError(field, `write 1 to ${atMost} characters: it is kept with the run`);
  return value;
}
