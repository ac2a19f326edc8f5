// Who may run beside whom in one process.
import { Solitude } from '../../../src/delivery/solitude.js';

const settled = async (promise: Promise<unknown>) => {
  let done = false;
  void promise.then(() => (done = true));
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
  return done;
};

test('attempts run beside each other', async () => {
  const solitude = new Solitude();
  await solitude.enter(false);
  expect(await settled(solitude.enter(false))).toBe(true);
});

test('a suspect waits until nothing else runs, and nothing starts beside it', async () => {
  const solitude = new Solitude();
  const leave = await solitude.enter(false);
  const suspect = solitude.enter(true);
  expect(await settled(suspect)).toBe(false);
  const later = solitude.enter(false);
  expect(solitude.tryEnter()).toBeNull();
  leave();
  const leaveSuspect = await suspect;
  expect(await settled(later)).toBe(false);
  leaveSuspect();
  (await later)();
  expect(solitude.tryEnter()).not.toBeNull();
});

test('leaving twice gives no second place back', async () => {
  const solitude = new Solitude();
  const leave = await solitude.enter(false);
  const other = await solitude.enter(false);
  leave();
  leave();
  expect(await settled(solitude.enter(true))).toBe(false);
  other();
});

test('two suspects run one after the other', async () => {
  const solitude = new Solitude();
  const leave = await solitude.enter(true);
  const second = solitude.enter(true);
  expect(await settled(second)).toBe(false);
  leave();
  (await second)();
});
