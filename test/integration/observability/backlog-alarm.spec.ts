// The alarm over real tables: what counts as waiting in each box, and that recovery looks. On a real database.
import { createTestDatabase, migrated } from '../../support/database.js';
import { pushJson, startInboxApp } from '../../support/inbox-app.js';
import { notingTransport, startOutboxApp } from '../../support/outbox-app.js';

const database = await migrated(await createTestDatabase('backlog_alarm'));
const backlogAlarm = { messages: 5, oldest: '1h', for: 0 } as const;

afterAll(() => database.drop());

test('the inbox tells that too much waits, held messages included, and that it is done', async () => {
  const app = await startInboxApp(database, {
    inbox: { backlogAlarm, recoveryInterval: '1h' },
    handlers: { t: () => undefined },
  });
  try {
    for (let n = 0; n < 6; n++) await pushJson(app.inbox, { type: 't' });
    await database.query("UPDATE inbox_message SET status = 'held' ORDER BY id DESC LIMIT 2");
    await app.inbox.recoverOnce();
    await database.query("UPDATE inbox_message SET status = 'pending'");
    await app.inbox.runOnce();
    await app.inbox.recoverOnce();
    expect(app.events('backlog')).toEqual([
      { name: 'backlog', box: 'inbox', state: 'raised', messages: 5, oldestDueMs: expect.any(Number) },
      { name: 'backlog', box: 'inbox', state: 'cleared', messages: 0, oldestDueMs: null },
    ]);
  } finally {
    await app.close();
  }
});

test('the outbox does the same; what is parked does not count', async () => {
  const app = await startOutboxApp(database, {
    outbox: { backlogAlarm, transports: { away: notingTransport() }, route: () => 'away' },
  });
  try {
    await app.send(Array.from({ length: 6 }, () => ({ topic: 't', receiver: 'r', payload: 1 })));
    await database.query(
      "UPDATE outbox_message SET status = 'parked', next_attempt_at = UTC_TIMESTAMP(3) + INTERVAL 1 HOUR",
    );
    await app.outbox.recoverOnce();
    expect(app.events('backlog')).toEqual([]);
    await app.outbox.wakeReceiver('r');
    await app.outbox.recoverOnce();
    expect(app.events('backlog')).toMatchObject([{ box: 'outbox', state: 'raised', messages: 5 }]);
    await database.query('DELETE FROM outbox_message');
    await app.outbox.recoverOnce();
    expect(app.events('backlog').at(-1)).toMatchObject({ state: 'cleared', messages: 0, oldestDueMs: null });
  } finally {
    await app.close();
  }
});
