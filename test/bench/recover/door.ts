import { fileURLToPath } from 'node:url';
import { Acknowledged } from '../../support/acknowledged.js';
import { startChild } from '../../support/child.js';
import type { TestDatabase } from '../../support/database.js';
import { moment, type Recovery } from './recovery.js';

const door = fileURLToPath(new URL('../../support/fixtures/intake-instance.ts', import.meta.url));

/** Milliseconds between two pushes of the sender. */
const pauseMs = 5;

/** From the moment at which a killed database answers again to the next push that is answered 200. */
export async function databaseRestarted(
  database: TestDatabase,
  server: { kill(): Promise<void>; start(): Promise<void> },
): Promise<Recovery> {
  await database.query('DELETE FROM inbox_message');
  const child = startChild(door, { env: { DATABASE_URL: database.url } });
  try {
    const url = (await child.line('ready', 60_000)).replace('ready ', '');
    const told = new Acknowledged();
    const sender = new Sender(url, told);
    for (let n = 0; n < 50; n++) await sender.push();
    const killed = server.kill();
    await sender.untilAnswered(false);
    await killed;
    await server.start();
    const startedAt = performance.now();
    await sender.untilAnswered(true);
    const ms = performance.now() - startedAt;
    const wrong = await told.wrong(database);
    return {
      ms,
      lost: wrong.filter(({ stored }) => stored.length === 0).length,
      twice: wrong.filter(({ stored }) => stored.length > 1).length,
    };
  } finally {
    await child.kill();
  }
}

/** Pushes one message after the other. */
class Sender {
  private pushed = 0;

  constructor(
    private readonly url: string,
    private readonly told: Acknowledged,
  ) {}

  async push(): Promise<boolean> {
    const id = `p${this.pushed++}`;
    try {
      const response = await fetch(this.url, { method: 'POST', body: JSON.stringify({ id }) });
      return this.told.note(id, { status: response.status, body: await response.text() } as Parameters<
        Acknowledged['note']
      >[1]);
    } catch {
      return false;
    }
  }

  /** Pushes until one is acknowledged, or is not. */
  async untilAnswered(acknowledged: boolean): Promise<void> {
    while ((await this.push()) !== acknowledged) await moment(pauseMs);
  }
}
