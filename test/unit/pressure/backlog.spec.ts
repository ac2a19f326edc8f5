// What waits in the table, as the door sees it: sampled when somebody asks, with hysteresis, on a clock of the test's own.
import { Backlog, type BacklogSample } from '../../../src/pressure/index.js';
import { gate } from '../../support/gate.js';

const depth = { messages: 100, ageMs: null };
const age = { messages: null, ageMs: 60_000 };

let now: number;
let waiting: number;
let oldestDueMs: number | null;
let samples: [number, boolean][];
let changes: string[];
let take: () => Promise<BacklogSample>;

beforeEach(() => {
  now = 1_000_000;
  waiting = 0;
  oldestDueMs = null;
  samples = [];
  changes = [];
  take = async () => ({ waiting, oldestDueMs });
});

function backlog(...limits: { messages: number | null; ageMs: number | null }[]): Backlog {
  return new Backlog(limits, {
    sample: (countTo, withAge) => {
      samples.push([countTo, withAge]);
      return take();
    },
    onChange: (reason, limit, isClosed) => changes.push(`${reason} ${limit} ${isClosed ? 'closed' : 'open'}`),
    now: () => now,
  });
}

/** What it says after a sample of its own. */
async function looked(subject: Backlog, limits = depth as Parameters<Backlog['closedBy']>[0]) {
  await subject.refresh();
  return subject.closedBy(limits);
}

test('closes at the limit and opens below four fifths of it, not in between', async () => {
  const subject = backlog(depth);
  const seen: (string | null)[] = [];
  for (waiting of [99, 100, 99, 80, 79, 99, 100]) seen.push(await looked(subject));
  expect(seen).toEqual([null, 'depth', 'depth', 'depth', null, null, 'depth']);
  expect(changes).toEqual(['depth 100 closed', 'depth 100 open', 'depth 100 closed']);
});

test('the age of the oldest due message closes too', async () => {
  const subject = backlog(age);
  const seen: (string | null)[] = [];
  for (oldestDueMs of [59_999, 60_000, 48_000, 47_999, 60_000, null]) seen.push(await looked(subject, age));
  expect(seen).toEqual([null, 'age', 'age', null, 'age', null]);
});

test('several limits share one sample: each decides for itself', async () => {
  const subject = backlog(depth, { messages: 300, ageMs: null });
  waiting = 200;
  expect(await looked(subject)).toBe('depth');
  expect(subject.closedBy({ messages: 300, ageMs: null })).toBeNull();
  expect(samples).toEqual([[300, false]]);
});

test('without limits nothing is ever asked', () => {
  const none = { messages: null, ageMs: null };
  expect(backlog(none).closedBy(none)).toBeNull();
  expect(samples).toEqual([]);
});

test('asks the database at most every 250 ms, however many ask, and never twice at a time', async () => {
  const subject = backlog(depth);
  const held = gate();
  take = async () => {
    await held.opened;
    return { waiting: 100, oldestDueMs: null };
  };
  for (let push = 0; push < 1_000; push++) expect(subject.closedBy(depth)).toBeNull();
  expect(samples).toHaveLength(1);
  held.open();
  await subject.refresh();
  for (let push = 0; push < 1_000; push++) expect(subject.closedBy(depth)).toBe('depth');
  now += 249;
  subject.closedBy(depth);
  expect(samples).toHaveLength(1);
  now += 1;
  subject.closedBy(depth);
  expect(samples).toHaveLength(2);
});

test('a sample that took long is followed by a pause of twenty times that', async () => {
  const subject = backlog(depth);
  take = async () => {
    now += 100;
    return { waiting: 0, oldestDueMs: null };
  };
  await subject.refresh();
  now += 1_999;
  subject.closedBy(depth);
  expect(samples).toHaveLength(1);
  now += 1;
  subject.closedBy(depth);
  expect(samples).toHaveLength(2);
});

test('a sample that fails changes nothing, and an old one is not believed', async () => {
  const subject = backlog(depth);
  waiting = 100;
  await subject.refresh();
  take = async () => {
    throw new Error('the database is away');
  };
  now += 4_000;
  expect(await looked(subject)).toBe('depth');
  now += 1_001;
  expect(await looked(subject)).toBeNull();
});
