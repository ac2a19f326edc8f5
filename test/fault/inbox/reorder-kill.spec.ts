// The reorder window over the end of a process: two instances, one killed in a handler. On the configured server.
import type { Child } from '../../support/child.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import {
  allTerminal,
  createEffectTables,
  startInstance,
  storeMessages,
  wrongEffects,
} from '../../support/inbox-fleet.js';

let database: TestDatabase;
const children: Child[] = [];

beforeAll(async () => {
  database = await migrated(await createTestDatabase('reorder_kill'));
  await createEffectTables(database);
});
afterEach(async () => {
  for (const child of children.splice(0)) await child.kill();
});
afterAll(() => database.drop());

async function start(name: string): Promise<Child> {
  const child = await startInstance(database, name, {
    lease: { ttl: 1_500 },
    maxRetry: 20,
    sources: { test: { type: 'work', reorder: { by: 'sequence', types: ['work'], window: '1s' } } },
  });
  children.push(child);
  return child;
}

/** As intake stores them, in one moment: their windows end together, in one second. */
async function arrive(bodies: readonly { entity: string; seq: number }[]): Promise<void> {
  await storeMessages(database, bodies);
  await database.query(
    `UPDATE inbox_message SET sequence = JSON_EXTRACT(CONVERT(body USING utf8mb4), '$.seq'), next_attempt_at = received_at + INTERVAL 1 SECOND
      WHERE sequence IS NULL`,
  );
}

test('the holder is killed in the middle of an entity: its messages are applied by sequence, once, and late ones are known', async () => {
  const size = 15;
  const shuffled = (entity: string) =>
    Array.from({ length: size }, (_, n) => ({ entity, seq: 10 + ((n * 7 + 3) % size), sleepMs: 10 }));
  await arrive(['a', 'b', 'c'].flatMap(shuffled));
  const victim = await start('victim');
  await victim.line(/^handling \d+ 1$/);
  for (let handled = 0; handled < size; handled++) await victim.line(/^handled \d+$/);
  await victim.line(/^handling \d+ 1$/);
  victim.signal('SIGKILL');
  const other = await start('other');
  await allTerminal(database);
  expect(other.stdout).not.toContain('event late');
  await arrive(['a', 'b', 'c'].map((entity) => ({ entity, seq: 1 })));
  await allTerminal(database);

  for (let n = 0; n < 3; n++) await other.line(/^event late/);
  expect(await wrongEffects(database)).toEqual([]);
  const applied = await database.query<{ entity: string; seq: number }>(
    'SELECT e.entity, m.sequence AS seq FROM effect e JOIN inbox_message m ON m.id = e.message_id ORDER BY e.id',
  );
  for (const entity of ['a', 'b', 'c']) {
    const own = applied.filter((row) => row.entity === entity).map((row) => row.seq);
    expect([entity, own]).toEqual([entity, [...Array.from({ length: size }, (_, n) => 10 + n), 1]]);
  }
  const last = await database.query('SELECT CAST(sequence AS CHAR) AS last FROM mailroom_sequence');
  expect(last).toEqual([{ last: '24' }, { last: '24' }, { last: '24' }]);
});
