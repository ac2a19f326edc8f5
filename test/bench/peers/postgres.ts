import { randomBytes } from 'node:crypto';
import { userInfo } from 'node:os';
import pg from 'pg';

/** POSTGRES_URL, else the server of this machine as whoever runs the bench. */
function serverUrl(): string {
  return process.env.POSTGRES_URL || `postgres://${encodeURIComponent(userInfo().username)}@127.0.0.1:5432/postgres`;
}

/** Runs `work` with a database of its own, dropped afterwards; null when no PostgreSQL answers. */
export async function withPostgres<T>(work: (url: string) => Promise<T>): Promise<T | null> {
  const client = new pg.Client({ connectionString: serverUrl(), connectionTimeoutMillis: 2_000 });
  try {
    await client.connect();
  } catch {
    return null;
  }
  const name = `mailroom_bench_${randomBytes(4).toString('hex')}`;
  try {
    await client.query(`CREATE DATABASE ${name}`);
    try {
      const url = new URL(serverUrl());
      url.pathname = `/${name}`;
      return await work(url.href);
    } finally {
      await client.query(`DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
    }
  } finally {
    await client.end();
  }
}
