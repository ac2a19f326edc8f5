import type { OnApplicationShutdown } from '@nestjs/common';
import { type Answer, CachedAnswer } from '../cached-answer.js';
import type { MailroomEvents } from '../events.js';
import type { BoxProbe, BoxStats, MailroomProbes } from '../probes.js';
import type { ReadinessReason, ResolvedHealthOptions, Severity } from './health-options.js';
import { LoopDelay } from './loop-delay.js';
import { SeenTrouble } from './seen-trouble.js';

/** One thing that was looked at. With a reason in words, and numbers, where it is not up. */
export type HealthCheck = { readonly status: 'up' | Severity; readonly reason?: string } & Readonly<
  Record<string, unknown>
>;

/** Shaped as @nestjs/terminus takes it: `health.check([() => mailroom.ready()])`. */
export type HealthResult<K extends string = string> = {
  readonly mailroom: {
    /** The worst of the checks. */
    readonly status: 'up' | Severity;
    readonly checks: Readonly<Partial<Record<K, HealthCheck>>>;
  };
};

interface Questions {
  readonly write: CachedAnswer<void>;
  readonly redis: CachedAnswer<boolean> | null;
  readonly stats: CachedAnswer<BoxStats>;
}

/** Answers come from what is known after this long; the questions go on behind. */
const patienceMs = 80;
/** Fewer pushes in a minute say nothing about the door. */
const fewestPushes = 20;

const up: HealthCheck = { status: 'up' };

/**
 * Tells the load balancer and people how mailroom is, with or without @nestjs/terminus. Never throws and answers within
 * 100 ms, but for the first answer, which waits for the database up to `timeout`. Probes of any number share one question
 * at a time, so they take at most one of mailroom's own connections per box and question.
 */
export class MailroomHealthIndicator implements OnApplicationShutdown {
  private readonly questions = new Map<BoxProbe, Questions>();
  private readonly seen: SeenTrouble;
  private readonly delay = new LoopDelay();

  constructor(
    private readonly options: ResolvedHealthOptions,
    events: MailroomEvents,
    private readonly probes: MailroomProbes,
  ) {
    this.seen = new SeenTrouble(events);
  }

  /** Down only when a loop stands still: then a restart helps. A round that fails counts as a turn. */
  async live(): Promise<HealthResult<BoxProbe['box']>> {
    const checks = this.probes.all().map(({ box, oldestTurnMs, stallAfterMs }): readonly [string, HealthCheck] => {
      const turnMs = Math.round(oldestTurnMs());
      if (turnMs <= stallAfterMs) return [box, up];
      return [box, { status: 'down', reason: 'a loop stands still', lastTurnMs: turnMs, stallAfterMs }];
    });
    return resultOf(checks);
  }

  /** Whether this instance should get pushes. */
  async ready(): Promise<HealthResult<ReadinessReason>> {
    const [database, redis, stats] = await Promise.all([this.database(), this.redis(), this.stats()]);
    return resultOf([
      ['draining', this.draining()],
      ['database', database],
      ['pool', this.pool()],
      ['loop', this.loop()],
      ...(redis ? [['redis', redis] as const] : []),
      ...stats,
      ['intake', this.intake()],
      ['breaker', this.breaker()],
    ]);
  }

  onApplicationShutdown(): void {
    this.seen.end();
    this.delay.end();
  }

  private draining(): HealthCheck {
    return this.probes.all().some((probe) => probe.isDraining()) ? this.not('draining', 'draining') : up;
  }

  private async database(): Promise<HealthCheck> {
    const { timeout } = this.options;
    for (const probe of this.probes.all()) {
      const answer = await this.ask(this.of(probe).write);
      if (answer.state === 'failed') return this.not('database', 'not writable', { code: codeOf(answer.error) });
      if (answer.state === 'late')
        return this.not('database', `no answer within ${timeout} ms`, { waitingMs: Math.round(answer.sinceMs) });
    }
    return up;
  }

  private pool(): HealthCheck {
    const waitMs = Math.round(Math.max(0, ...this.probes.all().map((probe) => probe.longestWaitMs())));
    if (waitMs < this.options.maxPoolWait) return up;
    return this.not('pool', "mailroom's own connections are all in use", { longestWaitMs: waitMs });
  }

  private loop(): HealthCheck {
    const blockedMs = Math.round(this.delay.recentMs());
    const { maxLoopBlock } = this.options;
    if (blockedMs < maxLoopBlock) return up;
    return this.not('loop', 'the event loop stood still in the last 10 s', { blockedMs, maxLoopBlock });
  }

  private async redis(): Promise<HealthCheck | null> {
    const asked = this.probes.all().flatMap((probe) => this.of(probe).redis ?? []);
    if (asked.length === 0) return null;
    const answers = await Promise.all(asked.map((question) => this.ask(question)));
    if (answers.every((answer) => answer.state === 'ok' && answer.value)) return up;
    return this.not('redis', 'not available: messages are stored and wait');
  }

  /** Without numbers nothing is said about them: the database's own check tells why. */
  private async stats(): Promise<(readonly ['backlog' | 'oldestDue', HealthCheck])[]> {
    const { maxBacklog, maxOldestDue } = this.options;
    let backlog = up;
    let oldestDue = up;
    for (const probe of this.probes.all()) {
      const answer = await this.ask(this.of(probe).stats);
      if (answer.state !== 'ok') continue;
      const { counts, oldestDueMs } = answer.value;
      const waiting = counts.pending ?? 0;
      const { box } = probe;
      if (waiting >= maxBacklog) backlog = this.not('backlog', 'too many messages wait', { box, waiting, maxBacklog });
      if (oldestDueMs !== null && oldestDueMs > maxOldestDue)
        oldestDue = this.not('oldestDue', 'a message has been due for too long', { box, oldestDueMs, maxOldestDue });
    }
    return [
      ['backlog', backlog],
      ['oldestDue', oldestDue],
    ];
  }

  private intake(): HealthCheck {
    const { good, bad } = this.seen.door.counts();
    const pushes = good + bad;
    if (pushes < fewestPushes || good / pushes >= this.options.minIntakeSuccess) return up;
    return this.not('intake', 'too many pushes were answered 503 in the last minute', { pushes, refused: bad });
  }

  private breaker(): HealthCheck {
    const open = this.seen.openBreakers();
    return open.length === 0 ? up : this.not('breaker', 'a breaker is open', { open: open.slice(0, 20) });
  }

  private not(reason: ReadinessReason, words: string, data: Readonly<Record<string, unknown>> = {}): HealthCheck {
    return { status: this.options.severity[reason], reason: words, ...data };
  }

  /** What was known before stands in for an answer that is still under way, until `timeout`. */
  private async ask<T>(question: CachedAnswer<T>): Promise<Answer<T>> {
    const { timeout } = this.options;
    const answer = await question.get(patienceMs);
    if (answer.state !== 'late' || answer.sinceMs >= timeout) return answer;
    return answer.last ?? question.get(timeout - answer.sinceMs);
  }

  private of(probe: BoxProbe): Questions {
    const { keepFor } = this.options;
    const known = this.questions.get(probe) ?? {
      write: new CachedAnswer(() => probe.write(), keepFor),
      redis: probe.redis && new CachedAnswer(probe.redis, keepFor),
      stats: new CachedAnswer(() => probe.stats(), keepFor),
    };
    this.questions.set(probe, known);
    return known;
  }
}

function resultOf<K extends string>(checks: readonly (readonly [K, HealthCheck])[]): HealthResult<K> {
  const has = (status: Severity) => checks.some(([, check]) => check.status === status);
  const status = has('down') ? 'down' : has('degraded') ? 'degraded' : 'up';
  return { mailroom: { status, checks: Object.fromEntries(checks) as Partial<Record<K, HealthCheck>> } };
}

/** The code alone: a message may name hosts and users. */
function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
}
