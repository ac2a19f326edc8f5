import { median, milliseconds, rate, rotated } from '../harness/figures.js';
import { atLeast, type BenchContext, type Part, type PartReport, type Verdict } from '../harness/part.js';
import { inBatches, oneByOne } from '../inbox/by-hand.js';
import { createEffects, event } from '../inbox/orders.js';
import { type Handled, type OursOptions, ours } from '../inbox/ours.js';
import { findPeers, type PeerRun, peerNames } from '../peers/peers.js';

/** Lanes of the wide variants, and connections of their limit. */
const lanes = 16;

interface Arm {
  readonly name: string;
  run(): Promise<Handled | PeerRun>;
}

interface Round {
  readonly arm: string;
  readonly result: Handled | PeerRun;
}

/** Consuming a backlog, beside the same statements by hand and beside what people use instead. */
export const part: Part = {
  about: 'handling a backlog: in order in 1 and 16 lanes, and competing; one business row, nothing, or 5 ms of waiting',
  async run(context) {
    await createEffects(context.database);
    const { arms, setUps } = await armsOf(context);
    const rounds: Round[] = [];
    if (context.length !== 'quick') {
      context.log('inbox: a round that is not counted, in which code is compiled');
      for (const { run } of arms) await run();
    }
    for (let round = 0; round < (context.length === 'quick' ? 1 : 3); round++) {
      for (const { name, run } of rotated(arms, round)) {
        context.log(`inbox: ${name}, round ${round + 1}`);
        rounds.push({ arm: name, result: await run() });
      }
    }
    return report(rounds, setUps);
  },
};

async function armsOf({ database, redisUrl, length }: BenchContext) {
  const of = (messages: number, quick = 60) => (length === 'quick' ? quick : messages);
  const by = (options: Omit<OursOptions, 'messages'>, messages: number) => () =>
    ours(database, { ...options, messages: of(messages) });
  const peers = await findPeers(redisUrl);
  const many = of(12_000, 400);
  const arms: Arm[] = [
    { name: names.hand1, run: () => oneByOne(database, of(1_200), 1) },
    { name: names.row1, run: by({ mode: 'ordered', lanes: 1, handler: 'row' }, 1_200) },
    { name: names.nothing1, run: by({ mode: 'ordered', lanes: 1, handler: 'nothing' }, 1_200) },
    { name: names.hand16, run: () => oneByOne(database, of(4_000), lanes) },
    { name: names.row16, run: by({ mode: 'ordered', lanes, handler: 'row' }, 4_000) },
    { name: names.wait1, run: by({ mode: 'ordered', lanes: 1, handler: 'wait' }, 200) },
    { name: names.wait16, run: by({ mode: 'ordered', lanes, handler: 'wait' }, 2_000) },
    { name: names.handBatch, run: () => inBatches(database, many) },
    {
      name: names.competing,
      run: () => ours(database, { mode: 'competing', lanes: 1, handler: 'nothing', messages: many }),
    },
    { name: names.competingRow, run: by({ mode: 'competing', lanes: 1, handler: 'row' }, 1_500) },
    ...peers.map(({ name, drain }) => ({ name, run: () => drain(many, JSON.parse(event)) })),
  ];
  return { arms, setUps: peers.map(({ name, setUp }) => `${name}: ${setUp}`) };
}

const names = {
  hand1: 'by hand, 1 connection: begin, row, mark + claim next, commit',
  row1: 'ordered, 1 lane, one row',
  nothing1: 'ordered, 1 lane, nothing',
  hand16: 'by hand, 16 connections: the same',
  row16: 'ordered, 16 lanes, one row',
  wait1: 'ordered, 1 lane, 5 ms',
  wait16: 'ordered, 16 lanes, 5 ms',
  handBatch: 'by hand: claim 100, mark 100',
  competing: 'competing, nothing',
  competingRow: 'competing, one row',
} as const;

function report(rounds: readonly Round[], setUps: readonly string[]): PartReport {
  const of = (name: string) => rounds.filter(({ arm }) => arm === name).map(({ result }) => result);
  const ratio = (ours: string, other: string) => {
    const others = of(other);
    if (others.length === 0) return null;
    return median(of(ours).map(({ perSecond }, round) => perSecond / (others[round]?.perSecond ?? Number.NaN)));
  };
  const beside = (ours: string, other: string, least: number, label = other.split(':')[0]) =>
    atLeast(`${ours} / ${label}, messages per second`, least, ratio(ours, other));
  const shown = [...new Set([...rounds.map(({ arm }) => arm).filter((arm) => !isName(arm)), ...peerNames])];
  return {
    tables: [
      {
        title: `Messages of 280 bytes, medians of ${of(names.row1).length} rounds in turns`,
        columns: ['', 'messages/s', 'CPU each'],
        rows: [...Object.values(names), ...shown].map((name) => {
          const results = of(name);
          if (results.length === 0) return [name, 'NOT MEASURED', ''];
          return [
            name,
            rate(median(results.map(({ perSecond }) => perSecond))),
            milliseconds(median(results.map(({ cpuMs }) => cpuMs))),
          ];
        }),
      },
      ...(setUps.length > 0
        ? [{ title: 'Peers', columns: ['set up with'], rows: setUps.map((setUp) => [setUp]) }]
        : []),
    ],
    targets: [
      beside(names.row1, names.hand1, 0.8),
      beside(names.row16, names.hand16, 0.75),
      beside(names.wait16, names.wait1, 8, names.wait1),
      beside(names.competing, names.handBatch, 0.75),
      ...peerNames.map((peer) => beside(names.competing, peer, 1)),
    ],
    verdicts: verdicts(rounds),
    figures: rounds.map(({ arm, result }) => ({ arm, ...result })),
  };
}

function isName(arm: string): boolean {
  return (Object.values(names) as string[]).includes(arm);
}

function verdicts(rounds: readonly Round[]): Verdict[] {
  const sum = (key: string) =>
    rounds.reduce((total, { result }) => total + Math.abs((result as unknown as Record<string, number>)[key] ?? 0), 0);
  const one = (name: string, count: number): Verdict => ({
    name,
    ok: count === 0,
    detail: `${rounds.length} runs: ${count}`,
  });
  return [
    one('nothing is lost', sum('lost')),
    one('nothing is handled twice', sum('doubled')),
    one('each entity in order, where order is kept', sum('disordered')),
  ];
}
