// Every example of docs/observability.md, pasted into a project and run as printed on a real database.
import { writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { jest } from '@jest/globals';
import type { DynamicModule } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { TypeOrmModule } from '@nestjs/typeorm';
import { Logger as PinoLogger } from 'nestjs-pino';
import {
  type InboxContext,
  InboxHandler,
  type InboxMessage,
  InboxModule,
  InboxService,
  PermanentFailureError,
} from '../../../src/index.js';
import { eventChannel } from '../../../src/observability/index.js';
import { drainInbox } from '../../../src/testing/index.js';
import { startChild } from '../../support/child.js';
import { createTestDatabase, migrated } from '../../support/database.js';
import { codeBlocks, docProject } from '../../support/doc-examples.js';
import { opened } from '../../support/open-resources.js';

const blocks = codeBlocks('docs/observability.md').filter(({ language }) => language !== 'json');
const project = docProject(blocks);
const database = await migrated(await createTestDatabase('observability_guide'));
const example = (name: string) => import(project.path(name));

afterEach(() => database.query('DELETE FROM inbox_message'));
afterAll(async () => {
  project.remove();
  await database.drop();
});

class Handlers {
  @InboxHandler('paid', { source: 'shop' })
  paid(message: InboxMessage<{ phone: number }>, { logger }: InboxContext) {
    logger.log({ msg: 'looked up', phone: message.json.phone, count: 3n });
    throw new PermanentFailureError('no such order', { kind: 'unknown-order' });
  }
}

/** An application that handles one push of `shop`. */
async function handle(
  imports: readonly DynamicModule[],
  providers: readonly unknown[],
  usePino = false,
): Promise<void> {
  const module = await Test.createTestingModule({
    imports: [
      TypeOrmModule.forRoot({ ...database.options, retryAttempts: 0 }),
      InboxModule.forRoot({ shutdown: { readinessDelay: 0 }, sources: { shop: { type: 'paid' } } }),
      ...imports,
    ],
    providers: [Handlers, ...(providers as [])],
  }).compile();
  const app = module.createNestApplication({ logger: false });
  const closed = opened({ what: 'an application', close: () => app.close() });
  try {
    if (usePino) app.useLogger(app.get(PinoLogger));
    await app.init();
    const inbox = app.get(InboxService);
    await inbox.receive('shop', { rawBody: '{"phone":13800138000}', headers: { 'x-request-id': 'r1' } });
    await drainInbox(inbox);
  } finally {
    await app.close();
    closed();
  }
}

test('every example has a name, and none is left out here', () => {
  expect(blocks.map(({ name }) => name)).toEqual(['on-call.ts', 'watch.mjs', 'log-options.ts', 'logging.ts']);
});

test('every example compiles in strict mode', async () => {
  const typescript = fileURLToPath(new URL('../../../node_modules/typescript/bin/tsc', import.meta.url));
  const options =
    '--strict --noEmit --skipLibCheck --module nodenext --target es2022 --lib es2024 --types node --experimentalDecorators --emitDecoratorMetadata';
  const files = blocks.flatMap(({ name }) => (name?.endsWith('.ts') ? [project.path(name)] : []));
  const compiler = startChild(typescript, { args: [...options.split(' '), ...files], cwd: project.path('.') });
  const { code } = await compiler.ended;
  expect(compiler.stdout).toBe('');
  expect(code).toBe(0);
  // Several times what it takes on a machine that has nothing else to do.
}, 180_000);

test('on-call.ts: the pager is told of a failure', async () => {
  const { OnCall, Pager } = await example('on-call.ts');
  const notified: string[] = [];
  const pager = { provide: Pager, useValue: { notify: (text: string) => notified.push(text) } };
  await handle([], [OnCall, pager]);
  expect(notified).toEqual([expect.stringMatching(/^shop\/paid \d+ failed: unknown-order$/)]);
});

test('watch.mjs: what is published on the channel is printed', async () => {
  // In a process of its own: the channel is that of the whole process, and the example listens for ever.
  const publish = `channel(${JSON.stringify(eventChannel)}).publish({ name: 'failed', traceId: 'r1' });`;
  writeFileSync(
    project.path('watched.mjs'),
    `import './watch.mjs';\nimport { channel } from 'node:diagnostics_channel';\n${publish}\n`,
  );
  const watched = startChild(project.path('watched.mjs'));
  expect(await watched.ended).toMatchObject({ code: 0 });
  expect(watched.stdout).toBe('failed r1\n');
});

test('log-options.ts and logging.ts: lines of the handler and of its outcome have the trace, and no phone number', async () => {
  const [{ logs }, { logging }] = await Promise.all([example('log-options.ts'), example('logging.ts')]);
  const written: string[] = [];
  const { stdout } = process;
  const write = jest.spyOn(stdout, 'write').mockImplementation((chunk) => written.push(String(chunk)) > 0);
  try {
    await handle([logs, logging], [], true);
  } finally {
    write.mockRestore();
  }
  const lines = written
    .flatMap((chunk) => chunk.split('\n'))
    .flatMap((line) => (line.startsWith('{') ? [JSON.parse(line)] : []));
  expect(lines).toEqual(
    expect.arrayContaining([
      expect.objectContaining({ msg: 'looked up', traceId: 'r1', phone: '*********00', count: '3' }),
      expect.objectContaining({
        msg: 'a message failed',
        traceId: 'r1',
        context: 'Mailroom',
        errorKind: 'unknown-order',
      }),
    ]),
  );
  expect(written.join('')).not.toContain('13800138000');
});
