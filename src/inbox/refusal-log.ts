import type { Logger } from '@nestjs/common';

export interface Refusal {
  readonly source: string;
  readonly refusal: string;
  readonly reason: string | undefined;
  /** What the sender calls the push; undefined: nothing. */
  readonly traceId?: string | undefined;
  /** The push itself was good: it is ours to look at. */
  readonly isOurs: boolean;
}

/** A burst that is refused must not be followed by a burst of log lines. Metrics count each one. */
const quietMs = 10_000;

/** One line for the first refusal of a kind, then one each ten seconds with how many there were. Sources are few and fixed. */
export class RefusalLog {
  private readonly told = new Map<string, { at: number; since: number }>();

  constructor(
    private readonly logger: Pick<Logger, 'warn' | 'debug'>,
    private readonly now: () => number = () => performance.now(),
  ) {}

  tell({ source, refusal, reason, traceId, isOurs }: Refusal): void {
    const detail = { msg: 'a push was refused', source, refusal, reason, traceId };
    if (!isOurs) {
      this.logger.debug(detail);
      return;
    }
    const key = `${source}\0${refusal}`;
    const last = this.told.get(key);
    if (last && this.now() - last.at < quietMs) {
      last.since++;
      return;
    }
    this.told.set(key, { at: this.now(), since: 0 });
    this.logger.warn({ ...detail, ...(last && last.since > 0 ? { unsaid: last.since } : {}) });
  }
}
