// The load: a process of its own, so that its work is not counted as the server's. It answers a LoadJob with a LoadResult.
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'undici';
import { answerRequests } from '../harness/worker.js';
import type { Latency, LoadJob, LoadResult, PushAnswer } from './load-job.js';
import { OrderPushes } from './order-push.js';

/** Events among which a re-push picks. */
const recent = 1_000;

class Run {
  private readonly pushes: OrderPushes;
  private readonly histogram: RecordableHistogram = createHistogram({ lowest: 1, highest: 120_000_000, figures: 3 });
  private readonly answers: PushAnswer[] = [];
  private readonly startedAt = performance.now();
  private readonly measureFrom: number;
  private readonly endAt: number;
  private events = 0;
  private sent = 0;
  private accepted = 0;
  /** Of a small generator of its own (Park and Miller): every run repeats at the same places. */
  private random = 20_261_201;

  constructor(private readonly job: LoadJob) {
    this.pushes = new OrderPushes(job);
    this.measureFrom = this.startedAt + job.warmUpMs;
    this.endAt = this.measureFrom + job.measureMs;
  }

  async toTheEnd(): Promise<LoadResult> {
    await Promise.all(Array.from({ length: this.job.connections }, () => this.connection()));
    return {
      perSecond: this.accepted / (this.job.measureMs / 1000),
      latency: latencyOf(this.histogram),
      answers: this.answers,
    };
  }

  private async connection(): Promise<void> {
    const client = new Client(this.job.origin, { pipelining: 1 });
    try {
      for (;;) {
        const startAt = await this.nextStart();
        if (startAt === null) return;
        await this.push(client, startAt);
      }
    } finally {
      await client.close();
    }
  }

  /** When the next push counts as started; null at the end. */
  private async nextStart(): Promise<number | null> {
    const now = performance.now();
    const { ratePerSecond } = this.job;
    if (ratePerSecond === undefined) return now < this.endAt ? now : null;
    const due = this.startedAt + (this.sent++ * 1000) / ratePerSecond;
    if (due >= this.endAt) return null;
    if (due <= now) return due;
    await delay(due - now);
    // It was free in time: that a timer is late is not the server's fault.
    return performance.now();
  }

  private async push(client: Client, startAt: number): Promise<void> {
    const event = this.nextEvent();
    const { headers, body } = this.pushes.make(event);
    const answer = await send(client, this.job.path, headers, body);
    const now = performance.now();
    this.answers.push({ event, ...answer });
    // At a fixed rate those that were due in time count, however late they were answered.
    const counts = this.isMeasured(this.job.ratePerSecond === undefined ? now : startAt);
    if (!counts) return;
    this.histogram.record(Math.max(1, Math.round((now - startAt) * 1000)));
    if (this.isMeasured(now) && answer.status >= 200 && answer.status < 300) this.accepted++;
  }

  private isMeasured(at: number): boolean {
    return at >= this.measureFrom && at <= this.endAt;
  }

  private nextEvent(): number {
    const { duplicateShare } = this.job;
    if (duplicateShare > 0 && this.events > recent && this.chance() < duplicateShare) {
      return this.events - 1 - Math.floor(this.chance() * recent);
    }
    return this.events++;
  }

  private chance(): number {
    this.random = (this.random * 48_271) % 2_147_483_647;
    return this.random / 2_147_483_647;
  }
}

async function send(
  client: Client,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: string,
): Promise<Omit<PushAnswer, 'event'>> {
  try {
    const response = await client.request({ method: 'POST', path, headers, body });
    return { status: response.statusCode, body: await response.body.text() };
  } catch (error) {
    return { status: 0, body: String(error) };
  }
}

function latencyOf(histogram: RecordableHistogram): Latency {
  const at = (percentile: number) => histogram.percentile(percentile) / 1000;
  return { p50: at(50), p90: at(90), p99: at(99), max: histogram.max / 1000 };
}

answerRequests(
  (job: LoadJob) => new Run(job).toTheEnd(),
  async () => undefined,
);
