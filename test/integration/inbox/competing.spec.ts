import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, pushJson, startInboxApp, type TestHandler } from '../../support/inbox-app.js';
import { allTerminal, statusCounts, storeMessages } from '../../support/inbox-fleet.js';
import { waitUntil } from '../../support/wait-until.js';

let database: TestDatabase;

beforeEach(async () => {
  database = await migrated(await createTestDatabase('competing'));
  await database.query('CREATE TABLE effect (message_id BIGINT UNSIGNED NOT NULL, KEY (message_id))');
});
afterEach(() => database.drop());

const write: TestHandler = async ({ id }, ctx) => {
  await ctx.manager.query('INSERT INTO effect (message_id) VALUES (?)', [id]);
};

const competing = { mode: 'competing', tick: 20, roundInterval: 50, enabled: true } as const;

async function withApps(
  count: number,
  options: Parameters<typeof startInboxApp>[1],
  work: (apps: InboxApp[]) => Promise<void>,
) {
  const apps: InboxApp[] = [];
  try {
    for (let n = 0; n < count; n++) apps.push(await startInboxApp(database, options));
    await work(apps);
  } finally {
    for (const app of apps) await app.close();
  }
}

describe('competing consumers', () => {
  it('handle every message once, several at a time, in two instances beside each other', async () => {
    let running = 0;
    let most = 0;
    const far: TestHandler = async () => {
      running++;
      most = Math.max(most, running);
      await new Promise((resolve) => setImmediate(resolve));
      running--;
    };
    const bodies = Array.from({ length: 600 }, (_, n) => ({ type: n % 2 ? 'write' : 'far', id: `m${n}` }));
    await storeMessages(database, bodies, 1);
    await withApps(2, { handlers: { write, far: [{ transactional: false }, far] }, inbox: competing }, async (apps) => {
      await allTerminal(database);
      // An event follows its commit, so whoever reads the rows can be earlier.
      const told = () => apps.reduce((sum, app) => sum + app.events('succeeded').length, 0);
      await waitUntil(() => told() >= 600, { what: 'all successes are told' });
      const handled = apps.map((app) => app.events('succeeded').length);
      expect(handled.reduce((sum, n) => sum + n)).toBe(600);
      expect(apps.flatMap((app) => app.events('claim-lost', 'round-failed'))).toEqual([]);
    });
    expect(most).toBeGreaterThan(1);
    const [row] = await database.query<{ n: number; ids: number }>(
      'SELECT COUNT(*) AS n, COUNT(DISTINCT message_id) AS ids FROM effect',
    );
    expect(row).toEqual({ n: 300, ids: 300 });
    expect(
      await database.query(
        'SELECT id FROM inbox_message WHERE attempts <> 1 OR open_entity IS NOT NULL OR claim_token IS NOT NULL',
      ),
    ).toEqual([]);
  });

  it('run at most `concurrency` at a time, and what waits in hand is given back when the process stops', async () => {
    const hold = gate();
    let running = 0;
    await storeMessages(
      database,
      Array.from({ length: 30 }, (_, n) => ({ type: 'slow', id: `m${n}` })),
      1,
    );
    const slow: TestHandler = async () => {
      running++;
      await hold.opened;
    };
    const app = await startInboxApp(database, { handlers: { slow }, inbox: { ...competing, concurrency: 3 } });
    try {
      await waitUntil(() => running === 3, { what: 'three handlers run' });
      expect(await statusCounts(database)).toEqual({ processing: 30 });
    } finally {
      const closing = app.close();
      await waitUntil(async () => (await statusCounts(database)).pending === 27, {
        what: 'the others were given back',
      });
      hold.open();
      await closing;
    }
    expect(running).toBe(3);
    expect(await statusCounts(database)).toEqual({ pending: 27, success: 3 });
    expect(
      await database.query("SELECT attempts FROM inbox_message WHERE status = 'pending' AND attempts <> 0"),
    ).toEqual([]);
  });

  it('look at all lanes, also those of a time with more of them, and at messages that had stepped aside', async () => {
    await storeMessages(
      database,
      Array.from({ length: 40 }, (_, n) => ({ type: 'write', id: `m${n}`, entity: `e${n}` })),
      8,
    );
    await database.query("UPDATE inbox_message SET status = 'held' WHERE id % 5 = 0");
    await withApps(1, { handlers: { write }, inbox: { ...competing, lanes: 2, enabled: false } }, async ([app]) => {
      await app?.inbox.recoverOnce();
      if (app) await drainInbox(app.inbox);
    });
    expect(await statusCounts(database)).toEqual({ success: 40 });
  });

  it('retry with the backoff, fail after the last retry, and go on with the rest', async () => {
    let calls = 0;
    const broken: TestHandler = async () => {
      calls++;
      throw new Error('broken');
    };
    await withApps(1, { handlers: { write, broken }, inbox: { ...competing, maxRetry: 2 } }, async ([app]) => {
      if (!app) return;
      await pushJson(app.inbox, { type: 'broken', id: 'b' });
      await pushJson(app.inbox, { type: 'write', id: 'w' });
      await allTerminal(database);
      expect(calls).toBe(3);
      await waitUntil(() => app.events('failed').length > 0, { what: 'the failure is told' });
      expect(app.events('failed')).toMatchObject([{ type: 'broken', attempt: 3, errorKind: 'Error' }]);
      expect(app.events('retrying').map(({ attempt }) => attempt)).toEqual([1, 2]);
    });
    expect(await statusCounts(database)).toEqual({ failed: 1, success: 1 });
  });

  it('do not write an outcome for a message that was taken over, and roll its handler back', async () => {
    const entered = gate();
    const hold = gate();
    const slow: TestHandler = async (message, ctx) => {
      await write(message, ctx);
      entered.open();
      await hold.opened;
    };
    await withApps(1, { handlers: { slow }, inbox: competing }, async ([app]) => {
      if (!app) return;
      const id = await pushJson(app.inbox, { type: 'slow', id: 's' });
      await entered.opened;
      const other = Buffer.alloc(16, 7);
      await database.query('UPDATE inbox_message SET claim_token = ? WHERE id = ?', [other, id]);
      hold.open();
      await waitUntil(() => app.events('claim-lost').length === 1, { what: 'the loss is told' });
      const [row] = await database.query<{ status: string; token: Buffer }>(
        'SELECT status, claim_token AS token FROM inbox_message',
      );
      expect(row?.status).toBe('processing');
      expect(row?.token.equals(other)).toBe(true);
      expect(app.events('succeeded')).toEqual([]);
    });
    expect(await database.query('SELECT * FROM effect')).toEqual([]);
  });

  it('a success written with others is not written for the message that was taken over', async () => {
    const hold = gate();
    let running = 0;
    const far: TestHandler = async () => {
      running++;
      await hold.opened;
    };
    await storeMessages(
      database,
      Array.from({ length: 5 }, (_, n) => ({ type: 'far', id: `m${n}` })),
      1,
    );
    await withApps(1, { handlers: { far: [{ transactional: false }, far] }, inbox: competing }, async ([app]) => {
      if (!app) return;
      await waitUntil(() => running === 5, { what: 'all five run' });
      const [taken] = await database.query<{ id: string }>('SELECT CAST(MIN(id) AS CHAR) AS id FROM inbox_message');
      await database.query('UPDATE inbox_message SET claim_token = ? WHERE id = ?', [Buffer.alloc(16, 7), taken?.id]);
      hold.open();
      await waitUntil(() => app.events('succeeded').length === 4, { what: 'the others are successes' });
      await waitUntil(() => app.events('claim-lost').length === 1, { what: 'the loss is told' });
      expect(app.events('claim-lost')[0]?.id).toBe(taken?.id);
    });
    expect(await statusCounts(database)).toEqual({ processing: 1, success: 4 });
  });

  it('extend their claims while a handler runs, and abort the handler whose claim was lost', async () => {
    const hold = gate();
    let aborted = false;
    const slow: TestHandler = async (_message, ctx) => {
      ctx.signal.addEventListener('abort', () => {
        aborted = true;
        hold.open();
      });
      await hold.opened;
    };
    const inbox = { ...competing, orphanAfter: 1_500, handlerTimeout: 1_400 };
    await withApps(1, { handlers: { slow: [{ transactional: false }, slow] }, inbox }, async ([app]) => {
      if (!app) return;
      const id = await pushJson(app.inbox, { type: 'slow', id: 's' });
      const until = async () => {
        const [row] = await database.query<{ until: string | null }>(
          'SELECT CAST(claimed_until AS CHAR) AS `until` FROM inbox_message WHERE id = ?',
          [id],
        );
        return row?.until ?? '';
      };
      await waitUntil(async () => (await until()) !== '', { what: 'it is claimed' });
      const first = await until();
      await waitUntil(async () => (await until()) > first, { what: 'the claim was extended' });
      await database.query('UPDATE inbox_message SET claim_token = ? WHERE id = ?', [Buffer.alloc(16, 7), id]);
      await waitUntil(() => aborted, { what: 'the handler was told' });
    });
  });

  it('claim a message that lost its owner alone, with nothing beside it', async () => {
    let running = 0;
    const beside: number[] = [];
    const watch: TestHandler = async ({ json }) => {
      running++;
      if (json.suspect) beside.push(running);
      await new Promise((resolve) => setTimeout(resolve, 5));
      if (json.suspect) beside.push(running);
      running--;
    };
    const bodies = Array.from({ length: 40 }, (_, n) => ({
      type: 'watch',
      id: `m${n}`,
      suspect: n === 20 || n === 21,
    }));
    await storeMessages(database, bodies, 1);
    await database.query(
      "UPDATE inbox_message SET error_kind = 'orphaned', attempts = 1 WHERE dedup_key IN ('m20', 'm21')",
    );
    await withApps(1, { handlers: { watch }, inbox: competing }, () => allTerminal(database));
    expect(beside).toEqual([1, 1, 1, 1]);
  });
});
