import { CachedAnswer } from '../cached-answer.js';
import type { BoxGauges, BoxProbe, BoxStats, MailroomProbes } from '../probes.js';
import type { MetricWriter } from './shared-metrics.js';

/** A scrape waits for the database at most this long, then it goes without the numbers of the table. */
const patienceMs = 1_000;

interface Sample {
  readonly stats: BoxStats;
  readonly gauges: BoxGauges;
}

const ofTable = [
  ['mailroom_waiting_later', ({ later }: BoxGauges) => later],
  ['mailroom_blocked_entities', ({ blocked }: BoxGauges) => blocked],
  ['mailroom_oldest_failed_seconds', ({ oldestFailedMs }: BoxGauges) => (oldestFailedMs ?? 0) / 1_000],
  ['mailroom_replay_runs', ({ runs }: BoxGauges) => runs],
  ['mailroom_replay_left', ({ runsLeft }: BoxGauges) => runsLeft],
] as const;

async function sampleOf(probe: BoxProbe): Promise<Sample> {
  return { stats: await probe.stats(), gauges: await probe.gauges() };
}

/**
 * Reads the gauges when somebody scrapes, one question per box at a time and at most one in `keepMs`, however many
 * scrape. Without an answer the numbers are taken away, so that nobody looks at old ones, and `mailroom_sample_up` is 0.
 */
export function gaugeSampler(probes: MailroomProbes, metrics: MetricWriter, keepMs: number): () => Promise<void> {
  const answers = new Map<BoxProbe, CachedAnswer<Sample>>();
  const seen = new Set<string>();
  return async () => {
    await Promise.all(probes.all().map((probe) => sample(probe)));
  };

  async function sample(probe: BoxProbe): Promise<void> {
    const { box } = probe;
    const answer = answers.get(probe) ?? new CachedAnswer(() => sampleOf(probe), keepMs);
    answers.set(probe, answer);
    metrics.set('mailroom_loop_age_seconds', { box }, probe.oldestTurnMs() / 1_000);
    const lanes = probe.lanesHeld();
    if (lanes !== null) metrics.set('mailroom_lanes_held', { box }, lanes);
    const { state, ...rest } = await answer.get(patienceMs);
    metrics.set('mailroom_sample_up', { box }, state === 'ok' ? 1 : 0);
    if (state === 'ok' && 'value' in rest) show(box, rest.value);
    else hide(box);
  }

  function show(box: string, { stats: { counts, oldestDueMs, inFlight }, gauges }: Sample): void {
    for (const [status, count] of Object.entries(counts)) {
      seen.add(status);
      metrics.set('mailroom_messages', { box, status }, count);
    }
    metrics.set('mailroom_oldest_due_seconds', { box }, (oldestDueMs ?? 0) / 1_000);
    metrics.set('mailroom_handlers_in_flight', { box }, inFlight);
    for (const [name, pick] of ofTable) metrics.set(name, { box }, pick(gauges));
  }

  function hide(box: string): void {
    for (const status of seen) metrics.forget('mailroom_messages', { box, status });
    metrics.forget('mailroom_oldest_due_seconds', { box });
    for (const [name] of ofTable) metrics.forget(name, { box });
  }
}
