import type { BoxTable } from './box-table.js';

/** Waiting messages that cannot be handled now, more than one step moves out of the queue. */
export type Crowd =
  /** Those of an order unit from one message on: they wait for another one. */
  | { readonly kind: 'unit'; readonly open: string; readonly from: string }
  /** Those of a type in one lane: nothing here can handle it now. */
  | { readonly kind: 'type'; readonly lane: number; readonly source: string; readonly type: string };

/** A condition over alias `m` that holds for messages of a lane in none of the crowds; empty when there are none. */
export function exceptCrowds(
  { open, id, source, type }: BoxTable,
  lane: number,
  crowds: readonly Crowd[],
): { readonly sql: string; readonly values: readonly string[] } {
  const here = crowds.filter((crowd) => crowd.kind === 'unit' || crowd.lane === lane);
  const conditionOf = (crowd: Crowd) =>
    crowd.kind === 'unit' ? `m.${open} <=> ? AND m.${id} >= ?` : `${source} = ? AND ${type} = ?`;
  return {
    sql: here.map((crowd) => `AND NOT (${conditionOf(crowd)})`).join(' '),
    values: here.flatMap((crowd) => (crowd.kind === 'unit' ? [crowd.open, crowd.from] : [crowd.source, crowd.type])),
  };
}
