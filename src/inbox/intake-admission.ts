import { IntakeRefusedError } from '../errors/intake-refused.error.js';
import type { Pressure } from '../pressure/index.js';
import type { ResolvedInboxOptions } from './inbox-options.js';

/**
 * Whether a push is taken in now. The order is always the same, cheapest and most certain first:
 *
 *   place   before anything is looked at: stopping (503), pushes in work here, of all sources and of this one (503)
 *   leave   after size and signature, so that nobody uses up the rate of somebody else: rate of the source (429), what
 *           waits in the table (503), the wait for a connection of ours or for a place in a batch (503)
 */
export class IntakeAdmission {
  private inFlight = 0;
  private readonly inFlightOf = new Map<string, number>();
  private draining = false;

  constructor(
    private readonly options: Pick<ResolvedInboxOptions, 'intake' | 'sources'>,
    private readonly pressure: Pressure,
    private readonly database: { longestWaitMs(): number },
  ) {}

  /** Pushes in work right now. */
  get pending(): number {
    return this.inFlight;
  }

  drain(): void {
    this.draining = true;
  }

  /**
   * Nothing is taken in at the moment, whoever pushes: a push can be answered before its body is read.
   * @throws IntakeRefusedError draining or overloaded
   */
  checkPlace(source: string): void {
    if (this.draining) throw new IntakeRefusedError('draining', 'this instance is stopping');
    const { maxInFlight } = this.options.intake;
    if (this.inFlight >= maxInFlight)
      throw new IntakeRefusedError('overloaded', `more than ${maxInFlight} pushes are in work`);
    const own = this.ownLimit(source);
    if (own !== undefined && (this.inFlightOf.get(source) ?? 0) >= own)
      throw new IntakeRefusedError('overloaded', `more than ${own} pushes of source ${source} are in work`);
  }

  /**
   * Takes a place among the pushes in work; give it back by calling what it returns, once.
   * @throws IntakeRefusedError as `checkPlace`
   */
  takePlace(source: string): () => void {
    this.checkPlace(source);
    this.inFlight++;
    const counted = this.ownLimit(source) !== undefined;
    if (counted) this.inFlightOf.set(source, (this.inFlightOf.get(source) ?? 0) + 1);
    return () => {
      this.inFlight--;
      if (counted) this.inFlightOf.set(source, (this.inFlightOf.get(source) ?? 1) - 1);
    };
  }

  /**
   * Leave for a push whose sender is known. `usesPool`: it will be stored over a connection of ours.
   * @throws IntakeRefusedError rate-limited (429), backlog or pool-busy (503)
   */
  askLeave(source: string, usesPool: boolean): void {
    const excess = this.pressure.excess(source);
    if (excess) {
      const { reason, retryInMs: retryAfterMs } = excess;
      if (reason === 'rate')
        throw new IntakeRefusedError('rate-limited', `source ${source} pushes more often than it may`, {
          retryAfterMs,
        });
      const what = reason === 'depth' ? 'too many messages wait' : 'messages have been waiting for too long';
      throw new IntakeRefusedError('backlog', `source ${source}: ${what}; push it again later`, { retryAfterMs });
    }
    if (usesPool && this.database.longestWaitMs() > this.options.intake.maxPoolWait)
      throw new IntakeRefusedError('pool-busy', `source ${source}: the database does not keep up; push it again`);
  }

  private ownLimit(source: string): number | undefined {
    return Object.hasOwn(this.options.sources, source) ? this.options.sources[source]?.maxInFlight : undefined;
  }
}
