import type { OnApplicationShutdown } from '@nestjs/common';
import type { Registry } from 'prom-client';
import type { MailroomEvents } from '../events.js';
import type { MailroomProbes } from '../probes.js';
import { countEvents } from './count-events.js';
import { LabelLimit } from './label-limit.js';
import type { ResolvedMetricsOptions } from './metrics-options.js';
import { gaugeSampler } from './sample-gauges.js';
import { acquireMetrics, MetricWriter, type PromClient, releaseMetrics } from './shared-metrics.js';

/** The metrics of one application: a subscriber of `MailroomEvents` and a sampler. Ends with the application. */
export class MailroomMetrics implements OnApplicationShutdown {
  readonly registry: Registry;
  private end: (() => void) | undefined;

  /** @throws InvalidOptionsError when the registry cannot take them */
  constructor(
    client: PromClient,
    { registry, defaultLabels, labelLimit, sampleFor }: ResolvedMetricsOptions,
    events: MailroomEvents,
    probes: MailroomProbes,
  ) {
    const target = registry ?? client.register;
    const shared = acquireMetrics(client, target, Object.keys(defaultLabels));
    const limit = new LabelLimit(labelLimit);
    const writer = new MetricWriter(shared, (own) => ({ ...limit.apply(own), ...defaultLabels }));
    const sample = gaugeSampler(probes, writer, sampleFor);
    shared.samples.add(sample);
    const unsubscribe = countEvents(events, writer);
    this.registry = target;
    this.end = () => {
      unsubscribe();
      shared.samples.delete(sample);
      releaseMetrics(target, shared);
    };
  }

  onApplicationShutdown(): void {
    this.end?.();
    this.end = undefined;
  }
}
