// Stalled owners, takeovers, recovery: an owner that was replaced changes nothing. Stalls are made by letting the
// lease and the claim run out in the database while the owner's own clock still believes in them.
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type Gate, gate } from '../../support/gate.js';
import { type InboxApp, type InboxAppOptions, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('fence'));
  await database.query('CREATE TABLE effect (id INT AUTO_INCREMENT PRIMARY KEY, note VARCHAR(200))');
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  for (const table of ['inbox_message', 'effect', 'mailroom_lease']) await database.query(`DELETE FROM ${table}`);
});
afterAll(() => database.drop());

async function start(options: InboxAppOptions): Promise<InboxApp> {
  const app = await startInboxApp(database, options);
  running.push(app);
  return app;
}

const message = async (id: string) =>
  (await database.query<Record<string, unknown>>('SELECT * FROM inbox_message WHERE id = ?', [id]))[0];
const effects = async () =>
  (await database.query<{ note: string }>('SELECT note FROM effect ORDER BY id')).map((row) => row.note);
const past = "'2001-01-01 00:00:00'";
const expireLease = () => database.query(`UPDATE mailroom_lease SET held_until = ${past}`);
const expireClaims = () =>
  database.query(`UPDATE inbox_message SET claimed_until = ${past} WHERE status = 'processing'`);

/** An instance whose handler stands still at its first statement or before it, until the gate opens. */
async function stalling(name: string, opening: Gate, entered: Gate, writesFirst = true): Promise<InboxApp> {
  return start({
    inbox: { maxRetry: 3 },
    handlers: {
      work: async (_received, ctx) => {
        if (writesFirst) await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [`${name} ${ctx.attempt}`]);
        entered.open();
        await opening.opened;
        if (!writesFirst) await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [`${name} ${ctx.attempt}`]);
      },
    },
  });
}

const swift = (name: string) =>
  start({
    handlers: {
      work: async (_received, ctx) =>
        void (await ctx.manager.query('INSERT INTO effect (note) VALUES (?)', [`${name} ${ctx.attempt}`])),
    },
  });

test.each([true, false])(
  'a stalled owner that wakes up after a takeover changes nothing (wrote before the stall: %s)',
  async (writesFirst) => {
    const opening = gate();
    const entered = gate();
    const a = await stalling('a', opening, entered, writesFirst);
    const b = await swift('b');
    const id = await pushJson(a.inbox, { type: 'work', entity: 'e' });
    const round = a.inbox.runOnce();
    await entered.opened;
    await expireLease();
    await expireClaims();
    await drainInbox(b.inbox);
    expect(await message(id)).toMatchObject({ status: 'success', attempts: 2 });
    opening.open();
    await round;
    expect(await effects()).toEqual(['b 2']);
    expect(await message(id)).toMatchObject({ status: 'success', attempts: 2 });
    expect(a.events('claim-lost')).toMatchObject([{ id }]);
    expect(a.events('succeeded')).toEqual([]);
    expect(b.events('recovered')).toMatchObject([{ id, status: 'pending' }]);
  },
);

/** Alone, an outcome is written by itself; with a next message due it claims that one in the same statement. */
const company: [string, number][] = [
  ['alone', 0],
  ['with a next message due', 1],
];

test.each(company)(
  'the fence alone stops a stalled owner whose claim was left in place (%s)',
  async (_what, others) => {
    const opening = gate();
    const entered = gate();
    const a = await stalling('a', opening, entered);
    const id = await pushJson(a.inbox, { type: 'work' });
    for (let n = 0; n < others; n++) await pushJson(a.inbox, { type: 'work' });
    const round = a.inbox.runOnce();
    await entered.opened;
    const before = await message(id);
    // The lane has a new holder; the claim of the message is untouched, so only the fence can tell.
    await database.query("UPDATE mailroom_lease SET fence = fence + 1, owner = 'other'");
    opening.open();
    await round;
    expect(await effects()).toEqual([]);
    expect(await message(id)).toMatchObject({ status: 'processing', claim_token: before?.claim_token });
    expect(await database.query("SELECT COUNT(*) AS n FROM inbox_message WHERE status = 'pending'")).toEqual([
      { n: others },
    ]);
  },
);

test.each(company)(
  'the token alone stops a stalled owner whose message was recovered and claimed again (%s)',
  async (_what, others) => {
    const opening = gate();
    const entered = gate();
    const a = await stalling('a', opening, entered);
    const id = await pushJson(a.inbox, { type: 'work' });
    for (let n = 0; n < others; n++) await pushJson(a.inbox, { type: 'work' });
    const round = a.inbox.runOnce();
    await entered.opened;
    await database.query(
      "UPDATE inbox_message SET claim_token = UNHEX('00112233445566778899AABBCCDDEEFF'), claimed_by = 'other' WHERE id = ?",
      [id],
    );
    opening.open();
    await round;
    // The others are its own to handle: the lane is still held.
    expect(await effects()).toEqual(Array(others).fill('a 1'));
    expect(await message(id)).toMatchObject({ status: 'processing', claimed_by: 'other' });
  },
);

test('a failure of a stalled owner changes nothing either', async () => {
  const opening = gate();
  const entered = gate();
  const a = await start({
    handlers: {
      work: async () => {
        entered.open();
        await opening.opened;
        throw new Error('too late');
      },
    },
  });
  const b = await swift('b');
  const id = await pushJson(a.inbox, { type: 'work' });
  const round = a.inbox.runOnce();
  await entered.opened;
  await expireLease();
  await expireClaims();
  await drainInbox(b.inbox);
  opening.open();
  await round;
  expect(await message(id)).toMatchObject({ status: 'success', attempts: 2, error_message: null });
});

test('while a lane is held no other instance handles anything of it', async () => {
  const opening = gate();
  const entered = gate();
  const a = await stalling('a', opening, entered);
  const b = await swift('b');
  await pushJson(a.inbox, { type: 'work' });
  await pushJson(a.inbox, { type: 'work' });
  const round = a.inbox.runOnce();
  await entered.opened;
  expect(await b.inbox.runOnce()).toEqual(['unavailable']);
  opening.open();
  await round;
  expect(await effects()).toEqual(['a 1', 'a 1']);
});

test('an interrupted message goes first, in its old place', async () => {
  const a = await swift('a');
  const ids: string[] = [];
  for (let n = 0; n < 4; n++) ids.push(await pushJson(a.inbox, { type: 'work', entity: 'e' }));
  await database.query(
    `UPDATE inbox_message SET status = 'processing', attempts = 1, claim_token = REPEAT('x', 16), claimed_by = 'gone', claimed_until = ${past} WHERE id = ?`,
    [ids[0]],
  );
  await drainInbox(a.inbox);
  expect(await effects()).toEqual(['a 2', 'a 1', 'a 1', 'a 1']);
});

test('a message whose owner vanished is handled although nothing else is due', async () => {
  const a = await swift('a');
  const id = await pushJson(a.inbox, { type: 'work' });
  await database.query(
    `UPDATE inbox_message SET status = 'processing', attempts = 1, claim_token = REPEAT('x', 16), claimed_by = 'gone', claimed_until = ${past} WHERE id = ?`,
    [id],
  );
  await a.inbox.runOnce();
  expect(await message(id)).toMatchObject({ status: 'success', attempts: 2 });
});

test('a claim that has not run out is left alone, also by a takeover', async () => {
  const a = await start({ handlers: { far: [{ transactional: false }, () => undefined], work: () => undefined } });
  const far = await pushJson(a.inbox, { type: 'far' });
  const near = await pushJson(a.inbox, { type: 'work' });
  await database.query(
    `UPDATE inbox_message SET status = 'processing', attempts = 1, claim_token = REPEAT('x', 16), claimed_by = 'alive', claimed_until = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR WHERE id = ?`,
    [far],
  );
  await drainInbox(a.inbox);
  expect(await message(far)).toMatchObject({ status: 'processing', claimed_by: 'alive' });
  expect(await message(near)).toMatchObject({ status: 'success' });
});

test('a claim of a transactional handler ends with the lease; one that is not transactional lives orphanAfter', async () => {
  const seen: Record<string, unknown> = {};
  const look = (name: string) => async () => {
    const [row] = await database.query<{ lease: number; claim: number }>(
      `SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(3), l.held_until) AS lease, TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(3), m.claimed_until) AS claim
         FROM mailroom_lease l, inbox_message m WHERE m.status = 'processing'`,
    );
    seen[name] = row && (row.claim <= row.lease ? 'with the lease' : row.claim > 250 ? 'orphanAfter' : row.claim);
  };
  const a = await start({
    inbox: { handlerTimeout: '5s', orphanAfter: '5m' },
    handlers: { tx: look('tx'), far: [{ transactional: false }, look('far')] },
  });
  await pushJson(a.inbox, { type: 'tx' });
  await pushJson(a.inbox, { type: 'far' });
  await pushJson(a.inbox, { type: 'tx' });
  await drainInbox(a.inbox);
  expect(seen).toEqual({ tx: 'with the lease', far: 'orphanAfter' });
});

test('a message that was alone with each process it took down ends as crashed, and the lane goes on', async () => {
  const a = await swift('a');
  const poison = await pushJson(a.inbox, { type: 'work', entity: 'p' });
  const follower = await pushJson(a.inbox, { type: 'work', entity: 'p' });
  await database.query(
    `UPDATE inbox_message SET status = 'processing', attempts = 4, claim_token = REPEAT('x', 16), claimed_by = 'gone!', claimed_until = ${past} WHERE id = ?`,
    [poison],
  );
  await drainInbox(a.inbox);
  expect(await message(poison)).toMatchObject({
    status: 'failed',
    attempts: 4,
    error_kind: 'crashed',
    open_entity: null,
  });
  expect(await message(follower)).toMatchObject({ status: 'success' });
  expect(a.events('failed')).toMatchObject([{ id: poison, errorKind: 'crashed' }]);
});

test('an innocent message beside a poison one is not ended by its crashes', async () => {
  const a = await swift('a');
  const id = await pushJson(a.inbox, { type: 'work' });
  await database.query(
    `UPDATE inbox_message SET status = 'processing', attempts = 4, claim_token = REPEAT('x', 16), claimed_by = 'gone', claimed_until = ${past} WHERE id = ?`,
    [id],
  );
  await drainInbox(a.inbox);
  expect(await message(id)).toMatchObject({ status: 'success', attempts: 5 });
});

test('the lease is renewed while a handler takes longer than it, and its claim lives on with it', async () => {
  const opening = gate();
  const entered = gate();
  const a = await start({
    inbox: { lease: { ttl: 1_200, renew: 200 }, handlerTimeout: '20s' },
    handlers: {
      work: async (_received, ctx) => {
        await ctx.manager.query("INSERT INTO effect (note) VALUES ('long')");
        entered.open();
        await opening.opened;
      },
    },
  });
  const b = await swift('b');
  const id = await pushJson(a.inbox, { type: 'work' });
  const round = a.inbox.runOnce();
  await entered.opened;
  const until = async () =>
    (
      await database.query<{ claimed_until: string; held_until: string }>(
        'SELECT claimed_until, held_until FROM inbox_message, mailroom_lease',
      )
    )[0];
  const first = await until();
  await waitUntil(async () => ((await until())?.claimed_until ?? '') > (first?.held_until ?? ''), {
    what: 'the claim outlives the first lease',
  });
  await pushJson(b.inbox, { type: 'work' });
  expect(await b.inbox.runOnce()).toEqual(['unavailable']);
  opening.open();
  await round;
  expect(await message(id)).toMatchObject({ status: 'success', attempts: 1 });
  expect(a.events('lease-renewed').length).toBeGreaterThan(0);
});
