// Purges beside everything else: pushes, consumption, replay runs and a second purge, on the same rows. Nothing fails, and
// each message is taken by one of them. The full size is `npm run bench -- retention`.
import { ControlPool } from '../../../src/database/index.js';
import { inboxRunBox } from '../../../src/delivery/runs/index.js';
import { ReplayModule, ReplayService, RetentionModule, RetentionService } from '../../../src/index.js';
import { MessagePurge } from '../../../src/retention/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';
import { numbers } from '../../support/plans.js';
import { waitUntil } from '../../support/wait-until.js';

const old = 3_000;
const pushes = 100;
const replayed = 100;
let database: TestDatabase;
let app: InboxApp;

beforeAll(async () => {
  database = await migrated(await createTestDatabase('purge_traffic'));
  await database.query('CREATE TABLE effect (message_id BIGINT, INDEX (message_id))');
  await database.query(
    `INSERT INTO inbox_message (source, type, dedup_key, body, status, attempts, next_attempt_at, received_at, updated_at, finished_at)
     SELECT 'test', 'work', CONCAT('old-', n), '{}', 'success', 1, UTC_TIMESTAMP(3) - INTERVAL 30 DAY, UTC_TIMESTAMP(3) - INTERVAL 30 DAY,
            UTC_TIMESTAMP(3) - INTERVAL 30 DAY, UTC_TIMESTAMP(3) - INTERVAL 30 DAY
       FROM ${numbers(0, old)}`,
  );
  app = await startInboxApp(database, {
    handlers: {
      work: ({ id }, { manager }) => manager.query('INSERT INTO effect (message_id) VALUES (?)', [id]),
    },
    inbox: { enabled: true, roundInterval: 50 },
    imports: [
      RetentionModule.forRoot({ enabled: false, batchSize: 100 }),
      ReplayModule.forRoot({ pollInterval: 50, ratePerSecond: 10_000 }),
    ],
  });
});
afterAll(async () => {
  await app.close();
  await database.drop();
});

test('two purges, a replay of the same messages, pushes and consumption: no error, and all counts add up', async () => {
  const replay = app.app.get(ReplayService);
  const retention = app.app.get(RetentionService);
  const last = await database.query<{ id: number }>(`SELECT id FROM inbox_message ORDER BY id DESC LIMIT ${replayed}`);
  const pool = new ControlPool(app.dataSource, { size: 1 });
  const second = new MessagePurge(pool, inboxRunBox, {
    status: 'success',
    olderThanMs: 7 * 86_400_000,
    archive: false,
  });
  let purgedBySecond = 0;
  const purging = async () => {
    for (let more = true; more; ) {
      const step = await second.step(70);
      purgedBySecond += step.purged;
      more = step.more;
    }
  };
  try {
    const run = await replay.start(
      { status: 'success', ids: last.map(({ id }) => id) },
      { actor: 'ann', reason: 'test' },
    );
    await Promise.all([
      purging(),
      retention.runOnce(),
      ...Array.from({ length: pushes }, (_, n) =>
        pushJson(app.inbox, { type: 'work', id: `new-${n}`, entity: `e${n % 7}` }),
      ),
    ]);
    await waitUntil(async () => (await replay.get(run.id))?.state === 'done', { what: 'the run ends' });
    const open = () => database.query("SELECT id FROM inbox_message WHERE status <> 'success'");
    await waitUntil(async () => (await open()).length === 0, { what: 'all are handled', timeoutMs: 50_000 });

    const { requeued = 0, skipped = 0 } = (await replay.get(run.id)) ?? {};
    expect(requeued + skipped).toBe(replayed);
    const purged = (retention.totals().rows['inbox_message.success'] ?? 0) + purgedBySecond;
    expect(purged + requeued).toBe(old);
    const effects = await database.query('SELECT COUNT(*) AS n, COUNT(DISTINCT message_id) AS messages FROM effect');
    expect(effects).toEqual([{ n: pushes + requeued, messages: pushes + requeued }]);
    expect(app.events('retrying', 'failed', 'round-failed', 'claim-lost', 'lease-lost')).toEqual([]);
    expect(retention.totals()).toMatchObject({ failedBatches: 0 });
  } finally {
    await pool.close();
  }
});
