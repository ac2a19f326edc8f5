/** How fast a run was, and what a message cost this process. */
export interface Pace {
  readonly perSecond: number;
  readonly cpuMs: number;
}

interface Moment {
  readonly messages: number;
  readonly at: number;
  readonly cpu: NodeJS.CpuUsage;
}

/**
 * Watches a run of so many messages. The rate leaves out the first tenth, in which code is compiled and caches fill, and the
 * last twentieth, in which workers run out of work one after the other.
 */
export class Steady {
  count = 0;
  private begin: Moment | undefined;
  private end: Moment | undefined;

  constructor(private readonly total: number) {}

  /** So many more messages are done. */
  done(messages = 1): void {
    this.count += messages;
    if (!this.begin && this.count >= this.total * 0.1) this.begin = moment(this.count);
    else if (!this.end && this.count >= this.total * 0.95) this.end = moment(this.count);
  }

  /** @throws when the run is not over, or was too short to have both ends */
  pace(): Pace {
    const { begin, end } = this;
    if (!begin || !end) throw new Error(`the pace of ${this.count} messages out of ${this.total}`);
    const messages = end.messages - begin.messages;
    const { user, system } = process.cpuUsage(begin.cpu);
    const after = process.cpuUsage(end.cpu);
    return {
      perSecond: (messages / (end.at - begin.at)) * 1000,
      cpuMs: (user + system - after.user - after.system) / 1000 / messages,
    };
  }
}

function moment(messages: number): Moment {
  return { messages, at: performance.now(), cpu: process.cpuUsage() };
}
