// Whose turn it is in an entity whose source has a reorder window. No server.
import { type OpenMessage, TurnOrder } from '../../../src/delivery/turn.js';

const order = new TurnOrder({ types: new Set(['e']), windowMs: 5_000 }, 'test');

/** `id:sequence` with a suffix: `w` in its window, `r` waits for its retry, `p` in work, `h` held; in front `x/` another type, `1/` lane 1. */
function open(...names: string[]): OpenMessage[] {
  return names.map((name) => {
    const [, front, id = '', sequence, suffix] = /^(?:(\w)\/)?(\d+):(-?\d+|-)(\w?)$/.exec(name) ?? [];
    return {
      id,
      source: 'test',
      type: front === 'x' ? 'x' : 'e',
      lane: front === '1' ? 1 : 0,
      sequence: sequence === '-' ? null : (sequence ?? null),
      status: suffix === 'p' ? 'processing' : suffix === 'f' ? 'failed' : suffix === 'h' ? 'held' : 'pending',
      is_due: suffix === 'w' || suffix === 'r' ? '0' : '1',
      in_window: suffix === 'w' ? '1' : '0',
    };
  });
}

function turn(id: string, ...names: string[]): string {
  const answer = order.turnOf(id, open(...names), true);
  if (answer.kind === 'after') return `after ${answer.earlier.map((one) => one.id).join(' ')}`;
  return answer.kind === 'behind' ? `behind ${answer.head.id}` : answer.kind;
}

test.each([
  ['the only one', '1', ['1:5'], 'now'],
  ['the smallest sequence of those that are open', '3', ['1:5', '2:4', '3:3'], 'now'],
  ['equal sequences go by id', '1', ['1:5', '2:5'], 'now'],
  ['the second of equal sequences', '2', ['1:5', '2:5'], 'after 1'],
  ['64-bit sequences are compared in full', '2', ['1:9007199254740993', '2:9007199254740992'], 'now'],
  ['negative sequences come first', '1', ['1:0', '2:-1', '3:-10'], 'after 3 2'],
  [
    'those before it come with it, though their window has not passed',
    '1',
    ['1:5', '2:4w', '3:3w', '4:9w'],
    'after 3 2',
  ],
  ['those that were held come with it', '1', ['1:5', '2:4h'], 'after 2'],
  ['one that waits for its retry holds back those behind it', '1', ['1:5', '2:4r'], 'behind 2'],
  ['only those before the one that waits come with it', '1', ['1:5', '2:4r', '3:3w'], 'after 3'],
  ['one that belongs before the one that waits for its retry', '2', ['1:5r', '2:4'], 'now'],
  ['one in work is before everything', '2', ['1:5', '2:4', '3:9p'], 'behind 3'],
  ['a failure that closed the entity is before everything', '2', ['1:5f', '2:4'], 'behind 1'],
  ['another type that arrived first', 'x', ['x/1:9', '2:4'], 'now'],
  ['behind another type that arrived first', '2', ['x/1:9', '2:4'], 'behind 1'],
  ['another type behind the smallest sequence', 'x', ['1:5', 'x/2:1', '3:3'], 'behind 3'],
  ['past another type, to come before a larger sequence', '3', ['1:5', 'x/2:1', '3:3'], 'now'],
  ['without a sequence it keeps its place', '2', ['1:5', '2:-'], 'behind 1'],
  ['the lane of the first decides', '2', ['1:5', '1/2:3'], 'behind 1'],
  ['one in another lane is not put before it', '1', ['1:5', '1/2:3'], 'now'],
  ['a finished one', '7', ['1:5'], 'gone'],
] as const)('%s', (_what, id, names, expected) => {
  const own = id === 'x' ? (names.find((name) => name.startsWith('x/'))?.[2] ?? '') : id;
  expect(turn(own, ...names)).toBe(expected);
});

test('at most fifty are put before one at a time', () => {
  const earlier = Array.from({ length: 120 }, (_, n) => `${n + 2}:${n}`);
  const answer = order.turnOf('1', open('1:500', ...earlier), true);
  expect(answer.kind === 'after' && answer.earlier.map(({ id }) => id)).toEqual(
    Array.from({ length: 50 }, (_, n) => String(n + 2)),
  );
});

test('one beyond those that were looked at waits for the head', () => {
  expect(order.turnOf('999', open('1:5', '2:3'), false)).toMatchObject({ kind: 'behind', head: { id: '2' } });
});
