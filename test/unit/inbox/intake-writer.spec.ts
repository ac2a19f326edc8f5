// A batch that waits for locks, on a store that answers by script; the locks of real servers are in
// integration/intake/locks.spec.ts.
import type { ControlConnection } from '../../../src/database/index.js';
import type { IntakeStore } from '../../../src/inbox/intake.store.js';
import { IntakeWriter } from '../../../src/inbox/intake-writer.js';
import type { MessageDraft } from '../../../src/inbox/message-draft.js';

const waited = Object.assign(new Error('Lock wait timeout exceeded'), { errno: 1205 });
const deadlock = Object.assign(new Error('Deadlock found'), { errno: 1213 });
const connection = {} as ControlConnection;

const draft = (key: string): MessageDraft => ({
  source: 'test',
  type: 't',
  dedupKey: Buffer.from(key),
  entityKey: null,
  open: null,
  lane: 0,
  sequence: null,
  delayMs: 0,
  headers: null,
  traceId: 't',
  contentType: null,
  body: Buffer.from('{}'),
});

/** Each INSERT takes the next step: an error, or null for success. Notes the keys of each, in order. */
function writer(steps: (Error | null)[]) {
  const inserts: string[] = [];
  const store: Pick<IntakeStore, 'insertCommitted' | 'firstCopies'> = {
    async insertCommitted(_connection, drafts) {
      inserts.push(drafts.map(({ dedupKey }) => String(dedupKey)).join(' '));
      const error = steps.shift();
      if (error) throw error;
      return drafts.map((_, index) => String(index + 1));
    },
    firstCopies: async () => new Map(),
  };
  return { inserts, writer: new IntakeWriter(store) };
}

test('a batch that waits for a lock a second time is not tried on', async () => {
  const { inserts, writer: subject } = writer([waited, waited, null]);
  expect(await subject.write(connection, [draft('b'), draft('a')])).toEqual([{ error: waited }, { error: waited }]);
  expect(inserts).toEqual(['b a', 'b a']);
});

test('one wait is no reason to refuse anybody', async () => {
  const { writer: subject } = writer([waited, null]);
  const written = await subject.write(connection, [draft('b'), draft('a')]);
  expect(written.map((one) => 'stored' in one)).toEqual([true, true]);
});

test('after a deadlock the batch is run again in the order of its keys, and each gets its own id', async () => {
  const { inserts, writer: subject } = writer([deadlock, null]);
  const written = await subject.write(connection, [draft('c'), draft('a'), draft('b')]);
  expect(inserts).toEqual(['c a b', 'a b c']);
  expect(written).toEqual(['3', '1', '2'].map((id) => ({ stored: { id, duplicate: false } })));
});

test('deadlocks that do not end are given up after five', async () => {
  const { inserts, writer: subject } = writer(Array.from({ length: 9 }, () => deadlock));
  await expect(subject.write(connection, [draft('a')])).rejects.toBe(deadlock);
  expect(inserts).toHaveLength(5);
});
