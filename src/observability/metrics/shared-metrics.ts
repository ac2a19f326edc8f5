import type { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { InvalidOptionsError } from '../../errors/invalid-options.error.js';
import { type MetricDefinition, type MetricName, metricDefinitions } from './metric-definitions.js';

export type PromClient = Pick<typeof import('prom-client'), 'Counter' | 'Gauge' | 'Histogram' | 'register'>;
export type Labels = Readonly<Record<string, string>>;
type Sample = () => Promise<void>;

/** Our metrics in one registry, however many applications of this process write to it. */
export interface SharedMetrics {
  readonly counters: ReadonlyMap<string, Counter>;
  readonly gauges: ReadonlyMap<string, Gauge>;
  readonly histograms: ReadonlyMap<string, Histogram>;
  readonly labelNames: string;
  /** Run before the sampled gauges are read. */
  readonly samples: Set<Sample>;
  users: number;
}

/** Found by every copy of this package in the process, so that two of them share one set of metrics. */
const key = Symbol.for('nestjs-mailroom:metrics');
const global = globalThis as { [key]?: WeakMap<Registry, SharedMetrics> };

/**
 * The metrics of a registry, made at first use; give them back with {@link releaseMetrics}.
 * @throws InvalidOptionsError when the registry has a foreign metric of the same name, or other default labels are in use
 */
export function acquireMetrics(client: PromClient, registry: Registry, extraLabels: readonly string[]): SharedMetrics {
  global[key] ??= new WeakMap();
  const labelNames = [...extraLabels].sort().join();
  const known = global[key].get(registry);
  if (known && known.labelNames !== labelNames) {
    throw new InvalidOptionsError(
      'metrics.defaultLabels',
      [...extraLabels],
      `this registry is in use with the labels [${known.labelNames}]; write the same names, or give each application a registry`,
    );
  }
  const shared = known ?? create(client, registry, extraLabels, labelNames);
  global[key].set(registry, shared);
  shared.users++;
  return shared;
}

/** The last user takes the metrics out of the registry. */
export function releaseMetrics(registry: Registry, shared: SharedMetrics): void {
  if (--shared.users > 0) return;
  for (const name of Object.keys(metricDefinitions)) registry.removeSingleMetric(name);
  global[key]?.delete(registry);
}

function create(client: PromClient, registry: Registry, extra: readonly string[], labelNames: string): SharedMetrics {
  const definitions: [string, MetricDefinition][] = Object.entries(metricDefinitions);
  // Looked at before anything is made: a clash leaves the registry as it was.
  for (const [name, { labels }] of definitions) {
    if (registry.getSingleMetric(name))
      throw new InvalidOptionsError(
        'metrics.registry',
        name,
        'the registry has a metric of this name that is not of mailroom; rename that one, or give mailroom a registry of its own',
      );
    for (const label of extra.filter((one) => labels.includes(one) || one === 'le'))
      throw new InvalidOptionsError('metrics.defaultLabels', label, `${name} has a label of this name; write another`);
  }
  const counters = new Map<string, Counter>();
  const gauges = new Map<string, Gauge>();
  const histograms = new Map<string, Histogram>();
  const samples = new Set<Sample>();
  const collect = async () => {
    await Promise.all([...samples].map((sample) => sample()));
  };
  for (const [name, { type, help, labels, buckets = [], isSampled }] of definitions) {
    const config = { name, help, labelNames: [...labels, ...extra], registers: [registry] };
    switch (type) {
      case 'counter':
        counters.set(name, new client.Counter(config));
        break;
      case 'gauge':
        gauges.set(name, new client.Gauge({ ...config, ...(isSampled ? { collect } : {}) }));
        break;
      case 'histogram':
        histograms.set(name, new client.Histogram({ ...config, buckets: [...buckets] }));
    }
  }
  return { counters, gauges, histograms, samples, labelNames, users: 0 };
}

/** Writes to the metrics of a registry with the labels of one application. */
export class MetricWriter {
  constructor(
    private readonly shared: SharedMetrics,
    private readonly labels: (own: Labels) => Record<string, string>,
  ) {}

  count(name: MetricName, own: Labels, by = 1): void {
    this.shared.counters.get(name)?.inc(this.labels(own), by);
  }

  set(name: MetricName, own: Labels, value: number): void {
    this.shared.gauges.get(name)?.set(this.labels(own), value);
  }

  forget(name: MetricName, own: Labels): void {
    this.shared.gauges.get(name)?.remove(this.labels(own));
  }

  observeMs(name: MetricName, own: Labels, ms: number): void {
    this.shared.histograms.get(name)?.observe(this.labels(own), ms / 1_000);
  }
}
