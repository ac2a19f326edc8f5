// Who may handle messages now, when fewer than all workers should.
import { Slots } from '../../../src/delivery/index.js';

const never = new AbortController().signal;
let capacity: number;
let slots: Slots;
beforeEach(() => {
  capacity = 2;
  slots = new Slots(() => capacity);
});

/** Takes a slot and notes when it was given. */
function taking(name: string, given: string[], signal = never) {
  const slot = slots.take(signal);
  void slot.then((got) => given.push(got ? name : `${name} gave up`));
  return slot;
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('gives as many slots as there is room for, the others in the order in which they asked', async () => {
  const given: string[] = [];
  const first = await taking('a', given);
  await taking('b', given);
  taking('c', given);
  taking('d', given);
  await settled();
  expect(given).toEqual(['a', 'b']);
  first?.end();
  first?.end();
  await settled();
  expect(given).toEqual(['a', 'b', 'c']);
});

test('who comes while others wait does not pass them', async () => {
  const given: string[] = [];
  const first = await taking('a', given);
  await taking('b', given);
  taking('c', given);
  capacity = 3;
  taking('d', given);
  await settled();
  expect(given).toEqual(['a', 'b']);
  first?.end();
  await settled();
  expect(given).toEqual(['a', 'b', 'c', 'd']);
});

test('a slot is wanted once somebody waits, or when there are too many', async () => {
  const first = await slots.take(never);
  const second = await slots.take(never);
  expect([first?.isWanted, second?.isWanted]).toEqual([false, false]);
  capacity = 1;
  expect(first?.isWanted).toBe(true);
  capacity = 2;
  void slots.take(never);
  expect(second?.isWanted).toBe(true);
});

test('there is always room for one', async () => {
  capacity = 0;
  expect(await slots.take(never)).not.toBeNull();
});

test('who is stopped while it waits gets none, and holds nobody up', async () => {
  capacity = 1;
  const given: string[] = [];
  const first = await taking('a', given);
  const stop = new AbortController();
  taking('b', given, stop.signal);
  taking('c', given);
  stop.abort();
  first?.end();
  await settled();
  expect(given).toEqual(['a', 'b gave up', 'c']);
  expect(await slots.take(stop.signal)).toBeNull();
});

test('asks for the room among those that have joined', async () => {
  const asked: number[] = [];
  slots = new Slots((workers) => {
    asked.push(workers);
    return workers;
  });
  slots.join();
  slots.join();
  await slots.take(never);
  slots.leave();
  void slots.take(never);
  expect(asked).toEqual([2, 1]);
});
