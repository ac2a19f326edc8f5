// The door while its database is away: restarted, frozen, read-only, full, or cutting connections. Senders are told to push
// again meanwhile, whatever got a 200 is in the table, and nobody restarts the application. On a private server.
import type { AddressInfo } from 'node:net';
import { type Connection, createConnection } from 'mysql2/promise';
import { type InboxParts, inboxPartsToken } from '../../../src/inbox/index.js';
import { Acknowledged } from '../../support/acknowledged.js';
import { createTestDatabase, migrated, type TestDatabase } from '../../support/database.js';
import { gate } from '../../support/gate.js';
import { type HttpPusher, httpPusher, inParallel, type PushAnswer } from '../../support/http-pusher.js';
import { type InboxApp, startInboxApp } from '../../support/inbox-app.js';
import { type PrivateDatabase, startPrivateDatabase } from '../../support/private-database.js';
import { tcpSwitch } from '../../support/tcp-switch.js';
import { waitUntil } from '../../support/wait-until.js';

/** Long form: FROZEN_SECONDS=12. */
const frozenMs = Number(process.env.FROZEN_SECONDS ?? 1) * 1_000;

let server: PrivateDatabase;
let database: TestDatabase;
let app: InboxApp | undefined;
let pusher: HttpPusher | undefined;
let acknowledged: Acknowledged;
let pushes = 0;

beforeAll(async () => {
  server = await startPrivateDatabase('like-the-tests');
  database = await migrated(await createTestDatabase('database_away', { serverUrl: server.url }));
  // Root may write to a read-only MariaDB, as no application's user may.
  await asRoot((root) => root.query(appUser()));
});
afterEach(async () => {
  pusher?.close();
  await app?.close();
  pusher = app = undefined;
});
afterAll(async () => {
  await database.drop();
  await server.remove();
});

const appUser = () =>
  `CREATE USER app@'127.0.0.1' IDENTIFIED BY 'secret'; GRANT ALL ON ${database.name}.* TO app@'127.0.0.1'`;

function appUrl(port = server.port): string {
  const url = new URL(database.url);
  url.username = 'app';
  url.password = 'secret';
  url.port = String(port);
  return url.href;
}

async function asRoot<T>(work: (root: Connection) => Promise<T>): Promise<T> {
  const root = await createConnection({ uri: server.url, multipleStatements: true });
  try {
    return await work(root);
  } finally {
    await root.end();
  }
}

/** An application whose user is none of the server's administrators, listening on a port of its own. */
async function start(port = server.port): Promise<InboxApp> {
  acknowledged = new Acknowledged();
  const started = await startInboxApp(
    { ...database, options: { ...database.options, url: appUrl(port) } },
    { source: { path: 'in' }, inbox: { intake: { ackTimeout: '1s' } } },
  );
  app = started;
  await started.app.listen(0, '127.0.0.1');
  pusher = httpPusher(`http://127.0.0.1:${(started.app.getHttpServer().address() as AddressInfo).port}/in`);
  return started;
}

async function push(id = `m${++pushes}`): Promise<PushAnswer> {
  const answer = await pusher?.push(JSON.stringify({ type: 't', id }));
  if (!answer) throw new Error(`push ${id} got no answer`);
  acknowledged.note(id, answer);
  return answer;
}

const goesThrough = () => waitUntil(async () => (await push()).status === 200, { what: 'a push is stored' });

const comeBack = {
  status: 503,
  headers: expect.objectContaining({ 'retry-after': expect.stringMatching(/^[1-9]\d*$/) }),
};

/** Every connection of the control pool is open. */
async function warm({ app: nest }: InboxApp): Promise<void> {
  const { pool, options } = nest.get<InboxParts>(inboxPartsToken);
  const all = gate();
  let open = 0;
  await Promise.all(
    Array.from({ length: options.controlPool }, () =>
      pool.withConnection(async () => {
        if (++open === options.controlPool) all.open();
        await all.opened;
      }),
    ),
  );
}

test.each(['stop', 'kill'] as const)(
  'a database that is restarted (%s) costs 503s, and no restart of the application',
  async (end) => {
    await warm(await start());
    await push();
    await server[end]();
    try {
      for (const answer of await Promise.all([push(), push(), push()])) expect(answer).toMatchObject(comeBack);
    } finally {
      await server.start();
    }
    await goesThrough();
    expect(acknowledged.size).toBeGreaterThan(1);
    expect(await acknowledged.wrong(database)).toEqual([]);
  },
);

test('pushes that run while the database is killed are stored or answered 503, never lost', async () => {
  await warm(await start());
  let running = true;
  const statuses: number[] = [];
  const load = inParallel(16, 16, async () => {
    while (running) statuses.push((await push()).status);
  });
  try {
    await waitUntil(() => acknowledged.size > 100, { what: 'pushes run' });
    await server.kill();
    await waitUntil(() => statuses.includes(503), { what: 'a push is refused' });
    await server.start();
    const before = acknowledged.size;
    await waitUntil(() => acknowledged.size > before + 100, { what: 'pushes run again' });
  } finally {
    running = false;
    await load;
  }
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
  expect(await acknowledged.wrong(database)).toEqual([]);
});

test('a database that is frozen costs 503s in time, and its answer that comes too late is a duplicate', async () => {
  await warm(await start());
  server.pause();
  let answers: PushAnswer[];
  try {
    answers = await Promise.all([push('frozen'), push(), push()]);
    // In the long form beyond what a statement may take.
    const until = performance.now() + frozenMs;
    await waitUntil(async () => (await push()).status !== 503 || performance.now() >= until, {
      what: 'the time is over',
      timeoutMs: frozenMs + 10_000,
      intervalMs: 100,
    });
  } finally {
    server.resume();
  }
  for (const answer of answers) expect(answer).toMatchObject(comeBack);
  await goesThrough();
  await waitUntil(async () => (await push('frozen')).status === 200, { what: 'the same push is taken' });
  expect(await acknowledged.wrong(database)).toEqual([]);
});

describe('read-only', () => {
  const readOnly = (on: boolean) => asRoot((root) => root.query(`SET GLOBAL read_only = ${on ? 'ON' : 'OFF'}`));
  afterEach(() => readOnly(false));

  test('a server that became read-only costs 503s until it is writable again', async () => {
    await warm(await start());
    await readOnly(true);
    for (const answer of await Promise.all([push(), push(), push()])) expect(answer).toMatchObject(comeBack);
    await readOnly(false);
    expect((await push()).status).toBe(200);
    expect(await acknowledged.wrong(database)).toEqual([]);
  });

  test('sessions that began read-only are given up when the server is writable again', async () => {
    const name = server.flavour === 'mysql' ? 'transaction_read_only' : 'tx_read_only';
    await start();
    await asRoot((root) => root.query(`SET GLOBAL ${name} = ON`));
    try {
      await warm(app as InboxApp);
      expect(await push()).toMatchObject(comeBack);
    } finally {
      await asRoot((root) => root.query(`SET GLOBAL ${name} = OFF`));
    }
    expect((await push()).status).toBe(200);
    expect(await acknowledged.wrong(database)).toEqual([]);
  });

  test('after a failover one refused push is enough: the next goes to the new primary', async () => {
    const newPrimary = await startPrivateDatabase('like-the-tests');
    const name = await tcpSwitch(server.port);
    try {
      const url = new URL(database.url);
      url.port = String(newPrimary.port);
      const there = await createConnection({ uri: newPrimary.url, multipleStatements: true });
      await there.query(`CREATE DATABASE ${database.name}; ${appUser()}`);
      await migrated({ ...database, options: { ...database.options, url: url.href } });

      await warm(await start(name.port));
      expect((await push()).status).toBe(200);
      await readOnly(true);
      name.pointTo(newPrimary.port);
      expect(await push('first')).toMatchObject(comeBack);
      expect(await push('first')).toMatchObject({ status: 200 });
      const [rows] = await there.query(`SELECT dedup_key FROM ${database.name}.inbox_message`);
      expect(rows).toEqual([{ dedup_key: Buffer.from('first') }]);
      await there.end();
    } finally {
      await app?.close();
      app = undefined;
      await name.close();
      await newPrimary.remove();
    }
  });
});

describe('connections', () => {
  /** Ends them as an administrator does. Returns how many there were. */
  const killAll = () =>
    asRoot(async (root) => {
      const [rows] = await root.query("SELECT id FROM information_schema.processlist WHERE user = 'app'");
      const ids = (rows as Record<string, number>[]).map((row) => row.id ?? row.ID);
      // It may have ended by itself since.
      for (const id of ids) await root.query('KILL ?', [id]).catch(() => undefined);
      return ids.length;
    });

  test('that are killed while idle cost at most one push', async () => {
    await warm(await start());
    expect(await killAll()).toBeGreaterThan(3);
    await push();
    expect((await push()).status).toBe(200);
    expect(await acknowledged.wrong(database)).toEqual([]);
  });

  test('that are killed at work lose no 200, again and again', async () => {
    await start();
    let running = true;
    const statuses: number[] = [];
    const load = inParallel(16, 16, async () => {
      while (running) statuses.push((await push()).status);
    });
    try {
      for (let kill = 0; kill < 20; kill++) {
        const before = acknowledged.size;
        await waitUntil(() => acknowledged.size > before + 30, { what: 'pushes run' });
        await killAll();
      }
    } finally {
      running = false;
      await load;
    }
    expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
    expect(await acknowledged.wrong(database)).toEqual([]);
  });

  test('that are all taken cost 503s in time, and the door opens with the first that comes back', async () => {
    const { pool, options } = (await start()).app.get<InboxParts>(inboxPartsToken);
    const release = gate();
    const holders = Array.from({ length: options.controlPool }, () => pool.withConnection(() => release.opened));
    for (const answer of await Promise.all([push(), push()])) expect(answer).toMatchObject(comeBack);
    release.open();
    await Promise.all(holders);
    expect((await push()).status).toBe(200);
    expect(await acknowledged.wrong(database)).toEqual([]);
  });

  test('that the server has none left of cost 503s until it has', async () => {
    await start();
    await asRoot((root) => root.query("ALTER USER app@'127.0.0.1' WITH MAX_USER_CONNECTIONS 1"));
    await killAll();
    const other = await createConnection(appUrl());
    try {
      expect(await push()).toMatchObject(comeBack);
    } finally {
      await other.end();
      await asRoot((root) => root.query("ALTER USER app@'127.0.0.1' WITH MAX_USER_CONNECTIONS 0"));
    }
    await goesThrough();
    expect(await acknowledged.wrong(database)).toEqual([]);
  });
});
