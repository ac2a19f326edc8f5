import { median, milliseconds, rotated } from '../harness/figures.js';
import { atMost, type Part, type PartReport, type Table, type Target } from '../harness/part.js';
import { heapInUse } from '../scale/heap.js';
import { type Costs, measure } from '../scale/measure.js';
import { batch, type Prepared, prepare } from '../scale/prepare.js';
import { settle } from '../scale/settle.js';
import { variants } from '../scale/variants.js';

type Measured = Prepared & { readonly rounds: Costs[] };

const mebibyte = 2 ** 20;
/** What a message, a push or `stats()` may cost beside many rows, in times of what it costs beside few. */
const atMostTimes = 1.3;
const longestStatsMs = 50;

/** Whether many finished rows, a backlog, a hot entity, or a mass that cannot be handled makes anything dearer. */
export const part: Part = {
  about: 'what a message, a push and stats() cost beside many others: a no-op handler, one lane, a commit for each',
  async run({ length, log }) {
    const prepared: Measured[] = [];
    try {
      for (const variant of variants(length)) {
        log(`scale: ${variant.name} is prepared`);
        prepared.push({ ...(await prepare(variant)), rounds: [] });
      }
      const [first] = prepared;
      if (first) await settle(first.database);
      const rounds = length === 'quick' ? 2 : 7;
      const heaps: number[] = [];
      for (let round = 0; round < rounds; round++) {
        log(`scale: round ${round + 1} of ${rounds}`);
        for (const one of rotated(prepared, round)) one.rounds.push(await measure(one));
        heaps.push(heapInUse());
      }
      return report(prepared, heaps);
    } finally {
      for (const one of prepared) await one.close();
    }
  },
};

function report(prepared: readonly Measured[], heaps: readonly number[]): PartReport {
  return {
    tables: [costTable(prepared), asideTable(prepared), heapTable(heaps)],
    targets: [...costTargets(prepared), ...scrapeTargets(prepared), ...heapTargets(heaps)],
    verdicts: [{ name: 'every round handled what was due', ok: true, detail: `${prepared.length} variants` }],
    figures: { variants: prepared.map(({ variant, rounds, aside }) => ({ ...variant, rounds, aside })), heaps },
  };
}

/** The smallest of its kind; a hot entity and a mass stand beside the smallest of all. */
function smallestOf(one: Measured, prepared: readonly Measured[]): Measured | undefined {
  return (
    prepared.find(({ variant }) => variant.group === one.variant.group && one.variant.group === 'waiting') ??
    prepared[0]
  );
}

/** The median of the rounds' ratios: what disturbs the machine for longer than a round disturbs both. */
function ratio(one: Measured, smallest: Measured | undefined, cost: keyof Costs): number {
  return median(one.rounds.map((round, at) => round[cost] / (smallest?.rounds[at]?.[cost] ?? Number.NaN)));
}

function costTable(prepared: readonly Measured[]): Table {
  const cell = (one: Measured, cost: keyof Costs) => [
    milliseconds(median(one.rounds.map((round) => round[cost]))),
    ratio(one, smallestOf(one, prepared), cost).toFixed(2),
  ];
  return {
    title: `${batch} messages, 100 pushes and 5 stats() a round, medians of ${prepared[0]?.rounds.length ?? 0} rounds in turns`,
    columns: ['beside', 'a message', 'ratio', 'a push', 'ratio', 'stats()', 'ratio'],
    rows: prepared.map((one) => [
      one.variant.name,
      ...cell(one, 'claim'),
      ...cell(one, 'intake'),
      ...cell(one, 'stats'),
    ]),
  };
}

function asideTable(prepared: readonly Measured[]): Table {
  const masses = prepared.flatMap(({ variant, aside }) => (aside ? [{ variant, aside }] : []));
  return {
    title: 'While a mass stands aside: from the receipt of another message to its handler',
    columns: ['', 'the mass took', 'messages', 'median', 'longest'],
    rows: masses.map(({ variant, aside: { tookMs, latenciesMs } }) => [
      variant.name,
      `${(tookMs / 1_000).toFixed(1)} s`,
      `${latenciesMs.length}`,
      milliseconds(median(latenciesMs)),
      milliseconds(Math.max(...latenciesMs)),
    ]),
  };
}

function heapTable(heaps: readonly number[]): Table {
  return {
    title: 'Heap in use after a round, all variants in one process',
    columns: ['round', 'heap'],
    rows: heaps.map((bytes, round) => [`${round + 1}`, `${(bytes / mebibyte).toFixed(1)} MiB`]),
  };
}

function costTargets(prepared: readonly Measured[]): Target[] {
  const names = { claim: 'a message', intake: 'a push', stats: 'stats()' } as const;
  return prepared.flatMap((one) => {
    const smallest = smallestOf(one, prepared);
    if (!smallest || smallest === one) return [];
    return (['claim', 'intake', 'stats'] as const).map((cost) =>
      atMost(`${one.variant.name} / ${smallest.variant.name}, ${names[cost]}`, atMostTimes, ratio(one, smallest, cost)),
    );
  });
}

/** What a scrape waits for: `stats()`, which counts up to 10,000 of each status. */
function scrapeTargets(prepared: readonly Measured[]): Target[] {
  const largest = prepared.toSorted((a, b) => b.variant.finished - a.variant.finished)[0];
  if (!largest) return [];
  const ms = median(largest.rounds.map(({ stats }) => stats));
  return [atMost(`${largest.variant.name}, milliseconds of stats()`, longestStatsMs, ms)];
}

function heapTargets(heaps: readonly number[]): Target[] {
  const [first, last] = [heaps[0], heaps.at(-1)];
  return [atMost('heap after the last round / after the first', 1.1, first && last ? last / first : null)];
}
