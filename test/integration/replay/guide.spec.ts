// The example of docs/replay.md, pasted into a project and run as printed on a real database.
import { fileURLToPath } from 'node:url';
import { NestFactory } from '@nestjs/core';
import { ReplayService } from '../../../src/index.js';
import { startChild } from '../../support/child.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { codeBlocks, docProject } from '../../support/doc-examples.js';
import { waitUntil } from '../../support/wait-until.js';

const blocks = codeBlocks('docs/replay.md').filter(({ language }) => language === 'ts');
const project = docProject(blocks);
const database = await migrated(await createTestDatabase('replay_guide'));
process.env.DATABASE_URL = database.url;

afterAll(async () => {
  project.remove();
  await database.drop();
});

test('the example compiles in strict mode', async () => {
  expect(blocks.map(({ name }) => name)).toEqual(['operations.ts']);
  const typescript = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url));
  const options =
    '--strict --noEmit --skipLibCheck --module nodenext --target es2022 --lib es2024 --types node --experimentalDecorators --emitDecoratorMetadata';
  const compiler = startChild(typescript, {
    args: [...options.split(' '), project.path('operations.ts')],
    cwd: project.path('.'),
  });
  const { code } = await compiler.ended;
  expect([compiler.stdout, code]).toEqual(['', 0]);
}, 120_000);

test('operations.ts: nobody 401, a viewer 403, an operator is in; the runbook runs what failed again', async () => {
  await database.query(
    `INSERT INTO inbox_message (source, type, body, status, error_kind, next_attempt_at) VALUES ('s', 'order.paid', '{}', 'failed', 'shop-away', '2026-01-01')`,
  );
  const { OperationsModule, Runbook } = await import(project.path('operations.ts'));
  const app = await NestFactory.create(OperationsModule, { logger: false });
  try {
    await app.listen(0, '127.0.0.1');
    const url = `${await app.getUrl()}/admin/replay`;
    const as = (token: string | null, path = 'runs', init: RequestInit = {}) => {
      const authorization: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
      return fetch(`${url}/${path}`, { ...init, headers: { 'content-type': 'application/json', ...authorization } });
    };
    expect([(await as(null)).status, (await as('token-of-bob')).status]).toEqual([401, 403]);
    const { count, run } = await app.get(Runbook).shopIsBack();
    expect(count).toBe(1);
    await waitUntil(async () => (await app.get(ReplayService).get(run))?.state === 'done', { what: 'the run ends' });
    const body = JSON.stringify({ selection: { all: true }, reason: 'again', actor: 'mallory' });
    const started = await as('token-of-ann', 'runs', { method: 'POST', body });
    expect([started.status, await started.json()]).toMatchObject([202, { actor: 'token-of-ann', selected: 0 }]);
  } finally {
    await app.close();
  }
});
