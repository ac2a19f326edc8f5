import { randomBytes } from 'node:crypto';
import { type Connection, createConnection } from 'mysql2/promise';

/** A database of the demo's own on the given server. */
export interface DemoDatabase {
  readonly url: string;
  readonly connection: Connection;
  drop(): Promise<void>;
}

export async function createDemoDatabase(serverUrl: string): Promise<DemoDatabase> {
  const name = `mailroom_demo_${randomBytes(4).toString('hex')}`;
  const server = new URL(serverUrl);
  server.pathname = '/';
  const connection = await createConnection({
    uri: server.href,
    supportBigNumbers: true,
    bigNumberStrings: true,
    dateStrings: true,
  });
  await connection.query(`CREATE DATABASE ${name}`);
  await connection.changeUser({ database: name });
  const url = new URL(name, server);
  return {
    url: url.href,
    connection,
    async drop() {
      await connection.query(`DROP DATABASE IF EXISTS ${name}`);
      await connection.end();
    },
  };
}
