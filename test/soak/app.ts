// The application of the soak: the reference application, which tells what it holds. `sample` on its standard input is
// answered with one line `{"rssMib":...}`. SOAK_LEAK=memory|timers|connections makes it leak, to show that the soak sees it.
import 'reflect-metadata';
import { createHook } from 'node:async_hooks';
import { createInterface } from 'node:readline';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { NestFactory } from '@nestjs/core';
import { WsAdapter } from '@nestjs/platform-ws';
import { DataSource } from 'typeorm';
import { mailroomMigrations } from '../../migrations/index.js';
import { AppModule } from '../../src/reference-app/app.module.js';
import { demoMigrations } from '../../src/reference-app/demo-migrations.js';
import { readEnvironment } from '../../src/reference-app/environment.js';

// Timers that let the process end are not among the resources that Node.js lists: all of them are counted here.
const timers = new Set<number>();
createHook({
  init: (id, type) => void (type === 'Timeout' && timers.add(id)),
  destroy: (id) => void timers.delete(id),
}).enable();
setFlagsFromString('--expose-gc');
const collect = runInNewContext('gc') as () => void;
const environment = readEnvironment(process.env);
const migrating = await new DataSource({
  type: 'mysql',
  url: environment.DATABASE_URL,
  migrations: [...mailroomMigrations(), ...demoMigrations],
}).initialize();
await migrating.runMigrations();
await migrating.destroy();
const app = await NestFactory.create(AppModule.forEnvironment(environment), {
  logger: ['error'],
  rawBody: true,
  abortOnError: false,
});
app.useWebSocketAdapter(new WsAdapter(app));
app.enableShutdownHooks(['SIGTERM'], { useProcessExit: true });
await app.listen(0, '127.0.0.1');

const kept: unknown[] = [];
const leak = async () => {
  if (process.env.SOAK_LEAK === 'memory') kept.push(Array.from({ length: 500_000 }, (_, at) => ({ at })));
  if (process.env.SOAK_LEAK === 'timers') for (let at = 0; at < 5; at++) setInterval(() => undefined, 60_000).unref();
  if (process.env.SOAK_LEAK === 'connections') {
    const runner = app.get(DataSource).createQueryRunner();
    await runner.connect();
    kept.push(runner);
  }
};

createInterface({ input: process.stdin }).on('line', async () => {
  await leak();
  collect();
  const { rss, heapUsed } = process.memoryUsage();
  const resources = process.getActiveResourcesInfo();
  const mib = (bytes: number) => Math.round((10 * bytes) / 1024 / 1024) / 10;
  console.log(
    JSON.stringify({
      rssMib: mib(rss),
      heapMib: mib(heapUsed),
      handles: resources.filter((name) => name !== 'Timeout' && name !== 'Immediate').length,
      timers: timers.size,
    }),
  );
});
console.log(`ready ${await app.getUrl()}`);
