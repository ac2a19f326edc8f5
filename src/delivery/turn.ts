import type { Row } from '../database/index.js';

/** What a source says about the order of its messages within an entity. */
export interface ReorderRule {
  /** Only messages of these types that have a sequence are put in order; all others keep their place of arrival. */
  readonly types: ReadonlySet<string>;
  readonly windowMs: number;
}

/** An unfinished message of an entity, as it stands in the table. */
export interface OpenMessage extends Row {
  readonly id: string;
  readonly source: string;
  readonly type: string;
  readonly lane: number;
  readonly sequence: string | null;
  readonly status: string;
  /** '1': its due time has come. */
  readonly is_due: string;
  /** '1': all that it waits for is the end of its own window. */
  readonly in_window: string | null;
}

/** Whether it is a message's turn. */
export type Turn =
  | { readonly kind: 'now' }
  /** These come first, in this order. Nothing but their place in the queue keeps them back. */
  | { readonly kind: 'after'; readonly earlier: readonly OpenMessage[] }
  /** It waits until `head` is finished. */
  | { readonly kind: 'behind'; readonly head: OpenMessage }
  /** It is not open any more. */
  | { readonly kind: 'gone' };

/** Messages that are put before another one at a time. */
const mostBroughtForward = 50;

/**
 * Decides whose turn it is in an entity, from its first open messages in order of arrival:
 *
 * 1. a message that is in work, or whose failure closed the entity, before everything else;
 * 2. else the message that arrived first, unless it is one of those that are put in order;
 * 3. then the one with the smallest sequence, and of these the smallest id, among those that are put in order and are in
 *    the same lane. After a change of the number of lanes an entity may have messages in two lanes; the lane of the
 *    message that arrived first decides alone, so that two consumers never choose differently.
 */
export class TurnOrder {
  constructor(
    private readonly rule: ReorderRule,
    private readonly source: string,
  ) {}

  headOf(open: readonly OpenMessage[]): OpenMessage | null {
    const closed = open.find((message) => !isWaiting(message));
    const first = closed ?? open[0];
    if (!first || closed || !this.isReordered(first)) return first ?? null;
    return this.inOrder(open, first.lane)[0] ?? first;
  }

  /** @param complete `open` is everything that is open, not only the first part */
  turnOf(id: string, open: readonly OpenMessage[], complete: boolean): Turn {
    const head = this.headOf(open);
    const own = open.find((message) => message.id === id);
    if (!head || (!own && complete)) return { kind: 'gone' };
    if (head.id === id) return { kind: 'now' };
    if (!own || own.lane !== head.lane || !this.isReordered(own) || !this.isReordered(head) || !canCome(head))
      return { kind: 'behind', head };
    const earlier = this.inOrder(open, own.lane);
    const before = earlier.slice(0, earlier.indexOf(own));
    const stop = before.findIndex((message) => !canCome(message));
    return {
      kind: 'after',
      earlier: before.slice(0, stop < 0 ? mostBroughtForward : stop).slice(0, mostBroughtForward),
    };
  }

  /** Those that are put in order, in order. */
  inOrder(open: readonly OpenMessage[], lane: number): OpenMessage[] {
    return open.filter((message) => message.lane === lane && this.isReordered(message)).sort(bySequenceThenId);
  }

  isReordered({ source, type, sequence }: Pick<OpenMessage, 'source' | 'type' | 'sequence'>): boolean {
    return source === this.source && sequence !== null && this.rule.types.has(type);
  }
}

/** Not in work, and not waiting for a retry or for having been put off. */
function canCome(message: OpenMessage): boolean {
  return isWaiting(message) && (message.is_due === '1' || message.in_window === '1');
}

/** Neither in work nor failed. */
export function isWaiting({ status }: OpenMessage): boolean {
  return status === 'pending' || status === 'held';
}

function bySequenceThenId(a: OpenMessage, b: OpenMessage): number {
  return compare(BigInt(a.sequence ?? 0), BigInt(b.sequence ?? 0)) || compare(BigInt(a.id), BigInt(b.id));
}

function compare(a: bigint, b: bigint): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
