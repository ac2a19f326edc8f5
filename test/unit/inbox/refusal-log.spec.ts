// One line for a burst of refused pushes.
import { RefusalLog } from '../../../src/inbox/refusal-log.js';

test('tells the first refusal of a kind at once, then one each ten seconds with how many were not told', () => {
  let now = 0;
  const lines: unknown[] = [];
  const log = new RefusalLog({ warn: (line: unknown) => void lines.push(line), debug: () => undefined }, () => now);
  const overloaded = { source: 'a', refusal: 'overloaded', reason: undefined, isOurs: true };
  for (let push = 0; push < 1_000; push++) log.tell(overloaded);
  log.tell({ ...overloaded, refusal: 'backlog' });
  now = 10_000;
  log.tell(overloaded);
  expect(lines).toMatchObject([
    { refusal: 'overloaded' },
    { refusal: 'backlog' },
    { refusal: 'overloaded', unsaid: 999 },
  ]);
});

test('what the sender did wrong is told for debugging only', () => {
  const lines: unknown[] = [];
  const log = new RefusalLog({ warn: () => undefined, debug: (line: unknown) => void lines.push(line) });
  log.tell({ source: 'a', refusal: 'signature', reason: 'no timestamp', isOurs: false });
  expect(lines).toEqual([{ msg: 'a push was refused', source: 'a', refusal: 'signature', reason: 'no timestamp' }]);
});
