import { median, milliseconds, rate } from '../harness/figures.js';
import { atLeast, atMost, type BenchContext, type Part, type Table, type Verdict } from '../harness/part.js';
import { type Arm, empty, insert, intake, repushed, save } from '../intake/arms.js';
import { type Comparison, createPeerTables, IntakeBench, type Run } from '../intake/measure.js';

/** The door beside the same application's endpoint that stores nothing, and beside two ways of storing by hand. */
export const part: Part = {
  about: 'the door: signed pushes, stored before they are answered',
  async run(context) {
    await createPeerTables(context);
    const bench = new IntakeBench(context);
    const done: { comparison: Comparison; runs: Run[] }[] = [];
    try {
      for (const comparison of comparisons(context.length)) {
        const runs = await bench.compare(comparison);
        done.push({ comparison, runs });
        const steady = steadily(comparison, runs);
        if (steady) done.push({ comparison: steady, runs: await bench.compare(steady) });
      }
    } finally {
      await bench.close();
    }
    const runs = done.flatMap((one) => one.runs);
    return {
      tables: done.map(({ comparison, runs }) => table(comparison, runs)),
      targets: targets(runs.filter((run) => run.framework === 'express' && run.ratePerSecond === null)),
      verdicts: [verdict(runs)],
      figures: runs,
    };
  },
};

function comparisons(length: BenchContext['length']): Comparison[] {
  const pace =
    length === 'quick' ? { rounds: 1, warmUpMs: 300, measureMs: 800 } : { rounds: 3, warmUpMs: 500, measureMs: 8_000 };
  const usual: Comparison[] = [
    { ...pace, framework: 'express', connections: 64, arms: [empty, save, insert, intake, repushed] },
    { ...pace, framework: 'express', connections: 1, arms: [insert, intake], measureMs: pace.measureMs / 4 },
  ];
  if (length !== 'full') return usual;
  const cells = (['express', 'fastify'] as const).flatMap((framework) =>
    // 64 first: the server must have warmed up before single pushes are timed.
    [64, 16, 256, 1].map((connections) => ({ framework, connections })),
  );
  const further = cells
    .filter(({ framework, connections }) => framework !== 'express' || connections === 16 || connections === 256)
    .map((cell) => ({ ...pace, ...cell, measureMs: pace.measureMs / 2, arms: [empty, save, insert, intake] }));
  return [...usual, ...further];
}

/** All at half of what the pool with single INSERTs can do, after the comparison that found that out. */
function steadily(comparison: Comparison, runs: readonly Run[]): Comparison | null {
  if (comparison.connections !== 64) return null;
  const most = median(runs.filter(({ arm }) => arm === insert.name).map(({ perSecond }) => perSecond));
  const ratePerSecond = Math.max(1, Math.round(most / 2));
  return { ...comparison, arms: [empty, insert, intake], ratePerSecond, measureMs: comparison.measureMs / 4 };
}

const names = { express: 'Express', fastify: 'Fastify' } as const;

function table(comparison: Comparison, runs: readonly Run[]): Table {
  const { framework, connections, ratePerSecond, arms, measureMs, rounds } = comparison;
  const middle = (arm: Arm, of: (run: Run) => number) =>
    median(runs.filter((run) => run.arm === arm.name).map((run) => of(run)));
  const pace = ratePerSecond === undefined ? 'as fast as it goes' : `${rate(ratePerSecond)} pushes/s asked for`;
  const plural = connections === 1 ? '' : 's';
  return {
    title: `${names[framework]}, ${connections} connection${plural}, ${pace}, ${measureMs / 1000} s each, medians of ${rounds}`,
    columns: ['', 'pushes/s', 'p50', 'p99', 'slowest', 'CPU each', 'not 2xx'],
    rows: arms.map((arm) => [
      arm.title,
      rate(middle(arm, ({ perSecond }) => perSecond)),
      milliseconds(middle(arm, ({ latency }) => latency.p50)),
      milliseconds(middle(arm, ({ latency }) => latency.p99)),
      milliseconds(middle(arm, ({ latency }) => latency.max)),
      milliseconds(middle(arm, ({ cpuMsPerPush }) => cpuMsPerPush)),
      arm.table === null ? '' : String(middle(arm, ({ check }) => check?.refused ?? 0)),
    ]),
  };
}

function targets(runs: readonly Run[]) {
  const speed = ({ perSecond }: Run) => perSecond;
  const p50 = ({ latency }: Run) => latency.p50;
  const p99 = ({ latency }: Run) => latency.p99;
  const at = (connections: number) => runs.filter((run) => run.connections === connections);
  return [
    atLeast('d / a, pushes per second at 64 connections', 0.85, ratio(at(64), intake, empty, speed)),
    atLeast('d / b, pushes per second at 64 connections', 4, ratio(at(64), intake, save, speed)),
    atMost('d / a, p99 at 64 connections', 1.5, ratio(at(64), intake, empty, p99)),
    atMost('d / c, p50 at 1 connection', 1.3, ratio(at(1), intake, insert, p50)),
    atLeast('d with 20 % re-pushed / d, pushes per second', 0.5, ratio(at(64), repushed, intake, speed)),
  ];
}

/** The median of the ratios of each round: what disturbs a machine for longer than a run disturbs both. */
function ratio(runs: readonly Run[], upper: Arm, lower: Arm, of: (run: Run) => number): number | null {
  const ratios = runs
    .filter((run) => run.arm === upper.name)
    .flatMap((run) => {
      const beside = runs.find((other) => other.arm === lower.name && other.round === run.round);
      return beside === undefined ? [] : [of(run) / of(beside)];
    });
  return ratios.length === 0 ? null : median(ratios);
}

function verdict(runs: readonly Run[]): Verdict {
  const checks = runs.flatMap(({ check }) => check ?? []);
  const sum = (of: 'accepted' | 'lost' | 'doubled' | 'wrong') => checks.reduce((all, check) => all + check[of], 0);
  const ok = sum('accepted') > 0 && sum('lost') === 0 && sum('doubled') === 0 && sum('wrong') === 0;
  const detail = `${sum('accepted').toLocaleString('en-US')} answered 2xx: ${sum('lost')} lost, ${sum('doubled')} doubled, ${sum('wrong')} with a wrong receipt`;
  return { name: 'every 2xx is in the table exactly once, under the id that its sender got', ok, detail };
}
