// Who works on a run: its store directly, so that one worker can stand still between two steps.
import { ControlPool } from '../../../src/database/index.js';
import { inboxRunBox, type Run, RunStore } from '../../../src/delivery/runs/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { waitUntil } from '../../support/wait-until.js';

const claimMs = 60_000;
let database: TestDatabase;
let pool: ControlPool;
let store: RunStore;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('run_fence'));
  pool = new ControlPool({ options: { type: 'mysql', url: database.url } }, { size: 4 });
  store = new RunStore(pool, inboxRunBox);
});
afterEach(async () => {
  for (const table of ['inbox_message', 'inbox_message_archive', 'replay_run', 'replay_item'])
    await database.query(`DELETE FROM ${table}`);
});
afterAll(async () => {
  await pool.close();
  await database.drop();
});

async function newRun(messages: number): Promise<Run> {
  for (let n = 0; n < messages; n++)
    await database.query(
      "INSERT INTO inbox_message (source, type, body, status, next_attempt_at) VALUES ('s', 't', '{}', 'failed', '2026-01-01')",
    );
  const id = await store.create(
    { all: true },
    { action: 'replay', actor: 'ann', reason: 'r', ratePerSecond: 10, keepOrder: false, maxReplays: null },
  );
  const run = await store.get(id);
  if (!run) throw new Error('the run is not there');
  return run;
}

const claimed = async (run: Run) => {
  const token = await store.claim(run.id, 'somebody', claimMs);
  if (!token) throw new Error('the run cannot be claimed');
  return token;
};
const moved = async () =>
  (await database.query<{ n: number }>("SELECT COUNT(*) AS n FROM inbox_message WHERE status = 'pending'"))[0]?.n;

/** Does `act` while somebody else has put the message back to pending and not committed; they commit when it waits. */
async function whileChanging<T>(id: unknown, act: () => Promise<T>): Promise<{ readonly result: Promise<T> }> {
  return pool.transaction(async (other) => {
    await other.execute("UPDATE inbox_message SET status = 'pending' WHERE id = ?", [id]);
    const result = act();
    result.catch(() => undefined);
    const waits = async () =>
      (
        await database.query(
          `SELECT 1 AS waits FROM information_schema.innodb_trx t JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
            WHERE t.trx_state = 'LOCK WAIT' AND p.db = ?`,
          [database.name],
        )
      ).length > 0;
    // The servers refresh this list only when nobody looked at it for 100 ms.
    await waitUntil(waits, { what: 'it waits for the row', intervalMs: 150 });
    return { result };
  });
}

test('a run has one worker; one that stood still while another took the run over moves nothing', async () => {
  const run = await newRun(3);
  const stalled = await claimed(run);
  expect(await store.claim(run.id, 'another', claimMs)).toBeNull();
  await database.query("UPDATE replay_run SET claimed_until = '2020-01-01'");
  const taken = await store.claimNext('another', claimMs);
  expect(taken?.run.id).toBe(run.id);
  expect(await store.step(run, stalled, 10, claimMs)).toEqual({ going: false, handled: 0, freed: [] });
  expect(await store.beat(run.id, stalled, claimMs)).toBe(false);
  expect(await moved()).toBe(0);
  expect(await store.step(run, taken?.token ?? stalled, 2, claimMs)).toMatchObject({ going: true, handled: 2 });
  expect(await moved()).toBe(2);
});

test('two steps with the same token at the same moment do not move a message twice', async () => {
  const run = await newRun(4);
  const token = await claimed(run);
  const steps = await Promise.all([store.step(run, token, 2, claimMs), store.step(run, token, 2, claimMs)]);
  expect(steps.map(({ handled }) => handled)).toEqual([2, 2]);
  expect(await store.get(run.id)).toMatchObject({ requeued: 4, skipped: 0 });
  expect(await database.query('SELECT DISTINCT replay_count AS n FROM inbox_message')).toEqual([{ n: 1 }]);
});

test('what somebody else is just changing is looked at when they have committed: skipped and counted as such', async () => {
  const run = await newRun(2);
  const token = await claimed(run);
  const [first] = await database.query<{ id: number }>('SELECT id FROM inbox_message ORDER BY id');
  const step = await whileChanging(first?.id, () => store.step(run, token, 2, claimMs));
  expect(await step.result).toMatchObject({ going: true, handled: 2 });
  expect(await store.get(run.id)).toMatchObject({ requeued: 1, skipped: 1 });
  expect((await database.query('SELECT 1 FROM inbox_message_archive')).length).toBe(1);
});

test('a message that somebody else is just changing is not edited', async () => {
  await newRun(1);
  await database.query("UPDATE replay_run SET state = 'done'");
  const [first] = await database.query<{ id: number }>('SELECT id FROM inbox_message');
  const edit = { id: String(first?.id), body: Buffer.from('{}'), reason: 'r', maxReplays: null };
  const { result } = await whileChanging(first?.id, () => store.edit(edit, 'ann'));
  await expect(result).rejects.toMatchObject({ message: expect.stringContaining('its status is pending') });
  expect(await database.query('SELECT CAST(id AS SIGNED) AS id FROM inbox_message')).toEqual([{ id: first?.id }]);
});

test('a cancelled run moves nothing more, and a resumed one is refused only for what it has before it', async () => {
  const run = await newRun(4);
  const token = await claimed(run);
  await store.step(run, token, 2, claimMs);
  expect(await store.cancel(run.id)).toBe(true);
  expect(await store.step(run, token, 2, claimMs)).toMatchObject({ going: false, handled: 0 });
  expect(await moved()).toBe(2);
  const [first, , third] = await database.query<{ id: number }>('SELECT id FROM inbox_message ORDER BY id');
  await database.query("UPDATE inbox_message SET status = 'failed' WHERE id = ?", [first?.id]);
  const request = {
    action: 'replay',
    actor: 'bob',
    reason: 'r',
    ratePerSecond: 10,
    keepOrder: false,
    maxReplays: null,
  } as const;
  await store.create({ ids: [first?.id ?? 0] }, request);
  expect(await store.resume(run.id)).toBe(true);
  await store.cancel(run.id);
  const other = await store.create({ ids: [third?.id ?? 0] }, request);
  await expect(store.resume(run.id)).rejects.toMatchObject({ runId: other });
});

test('of many who start the same run at the same moment one has it', async () => {
  const run = await newRun(50);
  await store.cancel(run.id);
  const request = {
    action: 'discard',
    actor: 'bob',
    reason: 'r',
    ratePerSecond: 10,
    keepOrder: false,
    maxReplays: null,
  } as const;
  const results = await Promise.allSettled(Array.from({ length: 4 }, () => store.create({ all: true }, request)));
  const started = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []));
  const refused = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as object] : []));
  expect(started).toHaveLength(1);
  expect(refused).toEqual(Array.from({ length: 3 }, () => expect.objectContaining({ runId: started[0] })));
});
