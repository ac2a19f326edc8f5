import 'reflect-metadata';
import { ShutdownSignal } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { WsAdapter } from '@nestjs/platform-ws';
import { Logger } from 'nestjs-pino';
import { DataSource } from 'typeorm';
import { mailroomMigrations, runMigrationsExclusively } from '../../migrations/index.js';
import { MailroomError } from '../index.js';
import { AppModule } from './app.module.js';
import { demoMigrations } from './demo-migrations.js';
import { type Environment, EnvironmentError, readEnvironment } from './environment.js';

/** Before the application is built, since its start-up looks at the tables. Instances that start together wait for one. */
async function migrate({ DATABASE_URL }: Environment): Promise<void> {
  const dataSource = await new DataSource({
    type: 'mysql',
    url: DATABASE_URL,
    migrations: [...mailroomMigrations(), ...demoMigrations],
  }).initialize();
  try {
    await runMigrationsExclusively(dataSource);
  } finally {
    await dataSource.destroy();
  }
}

async function start(): Promise<void> {
  const environment = readEnvironment(process.env);
  if (environment.MIGRATE) await migrate(environment);
  const app = await NestFactory.create(AppModule.forEnvironment(environment), {
    bufferLogs: true,
    // The CRM's pushes are stored byte by byte.
    rawBody: true,
    abortOnError: false,
  });
  app.useWebSocketAdapter(new WsAdapter(app));
  const logger = app.get(Logger);
  app.useLogger(logger);
  // A stop in order is a success: supervisors restart or alarm on other codes than 0.
  app.enableShutdownHooks([ShutdownSignal.SIGTERM, ShutdownSignal.SIGINT], { useProcessExit: true });
  for (const name of ['ORDERS_SECRET', 'GITHUB_SECRET', 'CONTRACTS_SECRET'] as const) {
    if (!environment[name]) logger.warn(`${name} is not set: its webhook is not mounted`);
  }
  await app.listen(environment.PORT, environment.HOST);
  logger.log({ msg: 'listening', url: await app.getUrl() });
}

/** One clear line for what the operator can mend, the whole error for the rest. */
start().catch((error: unknown) => {
  const expected = error instanceof EnvironmentError || error instanceof MailroomError;
  console.error(expected ? error.message : error);
  process.exit(1);
});
