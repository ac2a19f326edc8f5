// When it rings, and when it is over. No server; the clock is the test's.
import { BacklogAlarm, backlogAlarmSchema, type Waiting } from '../../../src/pressure/index.js';

function alarm(given: unknown = { messages: 10, oldest: '1m', for: '30s' }) {
  const told: string[] = [];
  const state = { at: 0, waiting: { messages: 0, oldestDueMs: null } as Waiting, asked: [] as number[] };
  const bell = new BacklogAlarm(
    backlogAlarmSchema.parse(given),
    async (countTo) => {
      state.asked.push(countTo);
      return state.waiting;
    },
    (what, { messages }) => told.push(`${what} ${messages}`),
    () => state.at,
  );
  const look = async (at: number, messages: number, oldestDueMs: number | null = null) => {
    Object.assign(state, { at: at * 1_000, waiting: { messages, oldestDueMs } });
    await bell.look();
    return told.splice(0).join();
  };
  return { look, asked: state.asked };
}

test('it rings once when the limit has been reached for so long, and once more when it is well below', async () => {
  const { look } = alarm();
  expect(await look(0, 10)).toBe('');
  expect(await look(29, 10)).toBe('');
  expect(await look(30, 10)).toBe('raised 10');
  expect(await look(60, 10)).toBe('');
  // At nine it may be ten again with the next message.
  expect(await look(90, 9)).toBe('');
  expect(await look(120, 7)).toBe('cleared 7');
  expect(await look(150, 10)).toBe('');
  expect(await look(180, 10)).toBe('raised 10');
});

test('a burst that is over before is not told, and does not count for the next one', async () => {
  const { look } = alarm();
  expect(await look(0, 10)).toBe('');
  expect(await look(20, 9)).toBe('');
  expect(await look(40, 10)).toBe('');
  expect(await look(60, 10)).toBe('');
  expect(await look(70, 10)).toBe('raised 10');
});

test('one old message is enough, and it is over when there is none such', async () => {
  const { look } = alarm({ oldest: '1m', for: 0 });
  expect(await look(0, 1, 59_000)).toBe('');
  expect(await look(1, 1, 60_000)).toBe('raised 1');
  expect(await look(2, 1, 50_000)).toBe('');
  expect(await look(3, 1, 47_000)).toBe('cleared 1');
});

test('counting stops at the limit; without an alarm nothing is asked', async () => {
  const small = alarm();
  await small.look(0, 10);
  expect(small.asked).toEqual([10]);
  const off = alarm(false);
  expect(await off.look(0, 10_000)).toBe('');
  expect(off.asked).toEqual([]);
});

test('the defaults are those of the documentation', () => {
  expect(backlogAlarmSchema.parse(undefined)).toEqual({ messages: 500, oldest: 600_000, for: 60_000 });
});
