// docs/ops: the alerts by promtool, every metric name in them and in the dashboard, and a runbook for each.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { metricDefinitions } from '../../src/observability/metrics/metric-definitions.js';
import { findPromtool } from '../support/promtool.js';

const folder = fileURLToPath(new URL('../../docs/ops/', import.meta.url));
const text = (name: string) => readFileSync(new URL(`../../docs/${name}`, import.meta.url), 'utf8');
const alerts = text('ops/alerts.yml');
const names = [...alerts.matchAll(/- alert: (\w+)/g)].map(([, name = '']) => name);

/** Metrics that an expression names, without the endings of a histogram. */
const metricsIn = (expressions: string) =>
  [...new Set(expressions.match(/mailroom_[a-z_]+/g) ?? [])].map((name) =>
    name in metricDefinitions ? name : name.replace(/_(?:bucket|sum|count)$/, ''),
  );

test('promtool finds the rules right, and each alert fires and stays silent where it should', () => {
  const promtool = findPromtool();
  if (promtool === null)
    throw new Error('promtool is needed: install Prometheus (on Debian: apt-get install prometheus)');
  try {
    for (const args of [
      ['check', 'rules', 'alerts.yml'],
      ['test', 'rules', 'alerts.test.yml'],
    ]) {
      const { status, stdout, stderr } = spawnSync(promtool.path, args, { cwd: folder, encoding: 'utf8' });
      expect({ args, status, said: status === 0 ? '' : stdout + stderr }).toEqual({ args, status: 0, said: '' });
    }
  } finally {
    promtool.remove();
  }
  const tests = text('ops/alerts.test.yml');
  for (const name of names) expect(tests).toMatch(new RegExp(`alertname: ${name}\\n\\s+exp_alerts:\\n`));
}, 400_000);

test('the alerts name metrics that exist, and each has a runbook', () => {
  expect(names.length).toBeGreaterThan(8);
  for (const name of metricsIn(alerts.replace(/^ *#.*$/gm, ''))) expect(Object.keys(metricDefinitions)).toContain(name);
  const runbook = text('operations.md');
  for (const name of names) {
    expect(runbook).toContain(`\n### ${name}\n`);
    expect(alerts).toContain(`runbook: docs/operations.md#${name.toLowerCase()}`);
  }
});

test('the dashboard shows every metric, and none that does not exist', () => {
  interface Panel {
    readonly type: string;
    readonly title: string;
    readonly gridPos: { readonly x: number; readonly w: number };
    readonly targets?: readonly { readonly expr: string }[];
  }
  const { panels } = JSON.parse(text('ops/dashboard.json')) as { panels: Panel[] };
  const shown = metricsIn(panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)).join('\n'));
  const known = Object.keys(metricDefinitions);
  for (const name of shown) expect(known).toContain(name);
  // The number of pushes is the sum of what became of them.
  const left = known.filter((name) => !shown.includes(name) && name !== 'mailroom_inbox_received_total');
  expect(left).toEqual([]);
  for (const { gridPos } of panels) expect(gridPos.x + gridPos.w).toBeLessThanOrEqual(24);
});
