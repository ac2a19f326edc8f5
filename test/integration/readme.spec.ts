// The README's code in both languages, pasted into a project of its own and run as printed: a process on a real database
// takes a signed push over HTTP and handles it. The guides under docs/ are run by readme-guides.spec.ts.
import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import { type Child, startChild } from '../support/child.js';
import { createTestDatabase, type TestDatabase } from '../support/database.js';
import { codeBlocks, type DocProject, docProject } from '../support/doc-examples.js';
import { waitUntil } from '../support/wait-until.js';

describe.each(['README.md', 'README.zh-CN.md'])('%s', (page) => {
  let database: TestDatabase;
  let project: DocProject;
  let env: Record<string, string>;
  let app: Child;

  beforeAll(async () => {
    database = await createTestDatabase('readme');
    project = docProject(codeBlocks(page));
    const secret = `whsec_${randomBytes(24).toString('base64')}`;
    env = { DATABASE_URL: database.url, ORDERS_SECRET: secret, PORT: String(await freePort()) };
    app = startChild(project.path('main.ts'), { env });
    await app.line('Nest application successfully started', 30_000);
  });
  afterAll(async () => {
    await app.kill();
    project.remove();
    await database.drop();
  });

  const push = async (changes: Record<string, string> = {}) => {
    const sender = startChild(project.path('push.mjs'), { env: { ...env, ...changes } });
    expect(await sender.ended).toEqual({ code: 0, signal: null });
    return sender.stdout.trim();
  };
  const handled = () => database.query('SELECT id, type, status, attempts FROM inbox_message ORDER BY id');

  test('the pasted application stores a signed push before it answers, and handles it', async () => {
    expect(await push()).toBe('200 {"id":"1","duplicate":false,"status":"stored"}');
    await waitUntil(async () => (await database.query('SELECT id FROM paid_order')).length > 0, {
      what: 'the order is marked as paid',
    });
    expect(await handled()).toEqual([{ id: 1, type: 'order.paid', status: 'success', attempts: 1 }]);
    expect(await database.query('SELECT id FROM paid_order')).toEqual([{ id: '42' }]);
  });

  test('the same push again is answered as a duplicate and stored once', async () => {
    expect(await push()).toBe('200 {"id":"1","duplicate":true,"status":"duplicate"}');
    expect(await handled()).toHaveLength(1);
  });

  test('a push that is signed with another secret is refused and not stored', async () => {
    const forged = await push({ ORDERS_SECRET: `whsec_${randomBytes(24).toString('base64')}` });
    expect(forged).toMatch(/^401 /);
    expect(await handled()).toHaveLength(1);
  });

  test('the application ends by itself when it is asked to', async () => {
    app.signal('SIGTERM');
    expect(await app.ended).toMatchObject({ signal: 'SIGTERM' });
  });

  test('an unset secret stops the start-up and names the option', async () => {
    const unset = startChild(project.path('main.ts'), { env: { ...env, ORDERS_SECRET: '' } });
    expect((await unset.ended).code).not.toBe(0);
    expect(unset.stdout + unset.stderr).toContain('standardWebhooks.secrets[0]');
  });
});

/** A port of the loopback interface that nobody listened on just now. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() =>
        typeof address === 'object' && address ? resolve(address.port) : reject(new Error('no port')),
      );
    });
  });
}
