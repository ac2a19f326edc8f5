// What a scrape says of messages that wait, hold others back or failed, of runs and of lanes: on a real database.
import { Registry } from 'prom-client';
import { MailroomMetricsModule, ReplayModule, ReplayService } from '../../../src/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type InboxApp, pushJson, startInboxApp } from '../../support/inbox-app.js';

let database: TestDatabase;
const running: InboxApp[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('gauges'));
});
afterEach(async () => {
  for (const app of running.splice(0)) await app.close();
  await database.query('DELETE FROM inbox_message');
});
afterAll(() => database.drop());

test('retries, blocked entities, failures, a replay run, a held lane and the way of a message are seen', async () => {
  const registry = new Registry();
  const entered = gate();
  const leave = gate();
  const app = await startInboxApp(database, {
    imports: [MailroomMetricsModule.forRoot({ registry, sampleFor: 0 }), ReplayModule.forRoot({ enabled: false })],
    inbox: { backoff: ['1h'], maxRetry: 1, lanes: 1 },
    handlers: {
      again: () => {
        throw new Error('not yet');
      },
      never: [
        { maxRetry: 0 },
        () => {
          throw new Error('never');
        },
      ],
      good: () => undefined,
      slow: async () => {
        entered.open();
        await leave.opened;
      },
    },
  });
  running.push(app);
  const value = async (metric: string) => {
    const line = (await registry.metrics()).split('\n').find((one) => one.startsWith(`${metric} `));
    return line === undefined ? undefined : Number(line.split(' ').at(-1));
  };
  for (const [entity, count] of [
    ['a', 3],
    ['b', 2],
  ] as const)
    for (let n = 0; n < count; n++) await pushJson(app.inbox, { type: 'again', entity });
  for (let n = 0; n < 4; n++) await pushJson(app.inbox, { type: 'never' });
  await pushJson(app.inbox, { type: 'good' });
  await drainInbox(app.inbox);
  await database.query(
    "UPDATE inbox_message SET finished_at = UTC_TIMESTAMP(3) - INTERVAL 90 SECOND WHERE status = 'failed'",
  );
  await app.app.get(ReplayService).start({ ids: await ids('failed') }, { actor: 'test', reason: 'test' });

  expect(await value('mailroom_waiting_later{box="inbox"}')).toBe(2);
  expect(await value('mailroom_blocked_entities{box="inbox"}')).toBe(2);
  expect(await value('mailroom_messages{box="inbox",status="failed"}')).toBe(4);
  const oldest = (await value('mailroom_oldest_failed_seconds{box="inbox"}')) ?? 0;
  expect(oldest).toBeGreaterThanOrEqual(90);
  expect(oldest).toBeLessThan(3_600);
  expect(await value('mailroom_replay_runs{box="inbox"}')).toBe(1);
  expect(await value('mailroom_replay_left{box="inbox"}')).toBe(4);
  expect(await value('mailroom_inbox_received_total{source="test"}')).toBe(10);
  expect(await value('mailroom_inbox_intake_seconds_count{source="test"}')).toBe(10);
  expect(await value('mailroom_inbox_end_to_end_seconds_count{source="test",type="good"}')).toBe(1);
  expect(await value('mailroom_lanes_held{box="inbox"}')).toBe(0);

  await pushJson(app.inbox, { type: 'slow' });
  const round = app.inbox.runOnce();
  await entered.opened;
  expect(await value('mailroom_lanes_held{box="inbox"}')).toBe(1);
  leave.open();
  await round;
});

async function ids(status: string): Promise<number[]> {
  const rows = await database.query<{ id: number }>('SELECT id FROM inbox_message WHERE status = ? LIMIT 4', [status]);
  return rows.map(({ id }) => id);
}
