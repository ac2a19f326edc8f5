// Random requests, most of them wrong, against the reference application with its secrets, on both HTTP adapters: none is
// answered 500, none ends the process, none is left without an answer. The same seed sends the same requests.
// Long form: FUZZ_REQUESTS=10000. FUZZ_SEED=<n> for another run, FUZZ_ONLY=<n> for one request of it.
import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';
import { fileURLToPath } from 'node:url';
import { DataSource } from 'typeorm';
import { mailroomMigrations } from '../../../migrations/index.js';
import { demoMigrations } from '../../../src/reference-app/demo-migrations.js';
import { type Child, startChild } from '../../support/child.js';
import { createTestDatabase, type TestDatabase } from '../../support/database.js';
import { inParallel } from '../../support/http-pusher.js';
import { type RandomRequest, randomRequests } from '../../support/random-request.js';
import { isComplete, wireBytes } from '../../support/wire-bytes.js';

const count = Number(process.env.FUZZ_REQUESTS ?? 1_000);
const seed = Number(process.env.FUZZ_SEED ?? 20_260_101);
const only = process.env.FUZZ_ONLY === undefined ? null : Number(process.env.FUZZ_ONLY);
const application = fileURLToPath(new URL('../../support/fixtures/reference-door.ts', import.meta.url));
const standardSecret = () => `whsec_${randomBytes(24).toString('base64')}`;
const secrets = {
  orders: standardSecret(),
  contracts: standardSecret(),
  github: randomBytes(24).toString('hex'),
};
/** Far above what a loaded machine needs: who is not answered by then never will be. */
const patienceMs = 30_000;

interface Outcome {
  readonly statuses: readonly number[];
  readonly text: string;
  /** Neither an answer nor an end of the connection. */
  readonly hung: boolean;
}

describe.each(['express', 'fastify'])('on %s', (adapter) => {
  let database: TestDatabase;
  let child: Child;
  let port: number;

  beforeAll(async () => {
    database = await createTestDatabase('fuzz');
    const migrations = [...mailroomMigrations(), ...demoMigrations];
    const dataSource = await new DataSource({ ...database.options, migrations }).initialize();
    await dataSource.runMigrations();
    await dataSource.destroy();
    child = startChild(application, {
      env: {
        ADAPTER: adapter,
        DATABASE_URL: database.url,
        REDIS_URL: '',
        LEASE_BACKEND: 'database',
        ORDERS_SECRET: secrets.orders,
        GITHUB_SECRET: secrets.github,
        CONTRACTS_SECRET: secrets.contracts,
        SHUTDOWN_READINESS_DELAY_MS: '0',
      },
    });
    port = Number(new URL((await child.line('ready', 60_000)).split(' ')[1] ?? '').port);
  });
  afterAll(async () => {
    await child.kill();
    await database.drop();
  });

  test(`${count} random requests (seed ${seed}): no 500, no crash, no hang`, async () => {
    const requests = randomRequests(seed, count);
    const wrong: unknown[] = [];
    const receipts = new Set<string>();
    const seen = new Map<number, number>();
    await inParallel(count, 24, async (n) => {
      const request = requests[n];
      if (!request || (only !== null && n !== only)) return;
      const { statuses, text, hung } = await send(request, `fuzz-${n}`);
      for (const status of statuses) seen.set(status, (seen.get(status) ?? 0) + 1);
      for (const [, id = ''] of text.matchAll(/\{"id":"(\d+)","duplicate"/g)) receipts.add(id);
      // A machine that is busy with other things may let the database miss its time.
      const faults = text.includes('the database is not available') ? [] : statuses.filter((status) => status >= 500);
      if (hung || faults.length > 0) {
        wrong.push({
          n,
          hung,
          text: text.slice(0, 300),
          request: { ...request, body: request.body.toString().slice(0, 200) },
        });
      }
    });
    const table = Object.fromEntries([...seen].toSorted(([a], [b]) => a - b));
    console.log(
      `${adapter}, ${database.flavour}: ${count} requests, seed ${seed}: ${JSON.stringify(table)}, ${receipts.size} stored`,
    );
    expect(wrong).toEqual([]);
    expect(child.stdout).not.toContain('unhandledRejection');
    const health = await fetch(`http://127.0.0.1:${port}/health/live`, { headers: { connection: 'close' } });
    expect(health.status).toBe(200);
    const rows = await database.query<{ id: string }>('SELECT CAST(m.id AS CHAR) AS id FROM inbox_message m');
    const stored = new Set(rows.map(({ id }) => id));
    expect([...receipts].filter((id) => !stored.has(id))).toEqual([]);
    if (only === null) expect(receipts.size).toBeGreaterThan(count / 20);
  }, 600_000);

  /** Writes the request, and waits for its answer or for the end of the connection. */
  function send(request: RandomRequest, id: string): Promise<Outcome> {
    const bytes = wireBytes(request, secrets, id);
    return new Promise((resolve) => {
      const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
      let text = '';
      const outcome = (hung: boolean): Outcome => ({
        statuses: [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map(([, status]) => Number(status)),
        text,
        hung,
      });
      const timer = setTimeout(() => {
        resolve(outcome(true));
        socket.destroy();
      }, patienceMs);
      const end = () => {
        clearTimeout(timer);
        socket.destroy();
        resolve(outcome(false));
      };
      socket.on('data', (part) => {
        text += part.toString('latin1');
        // The answer of an interim 100 is not the last one.
        if (/^HTTP\/1\.1 (?!1)\d{3}[\s\S]*?\r\n\r\n/m.test(text)) socket.end();
      });
      socket.on('end', end).on('close', end).on('error', end);
      const cut = request.cut === null ? bytes.length : Math.floor(bytes.length * request.cut);
      socket.write(bytes.subarray(0, cut));
      setImmediate(() => {
        if (cut < bytes.length) socket.write(bytes.subarray(cut));
        if (request.ending === 'gone') socket.destroySoon();
        else if (request.ending === 'half' || !isComplete(request)) socket.end();
      });
    });
  }
});
