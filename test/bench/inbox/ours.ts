import { MailroomEvents } from '../../../src/index.js';
import type { TestDatabase } from '../../support/database.js';
import { startInboxApp, type TestHandler } from '../../support/inbox-app.js';
import { waitUntil } from '../../support/wait-until.js';
import { type Pace, Steady } from '../harness/steady.js';
import { checkInbox, fillInbox, type Wrong, writeEffect } from './orders.js';

export interface OursOptions {
  readonly mode: 'ordered' | 'competing';
  readonly lanes: number;
  readonly handler: 'row' | 'nothing' | 'wait';
  readonly messages: number;
}

export interface Handled extends Wrong, Pace {}

const limitMs = 300_000;

/** The inbox handles a backlog. */
export async function ours(database: TestDatabase, options: OursOptions): Promise<Handled> {
  const { mode, lanes, handler, messages } = options;
  await fillInbox(database, messages, lanes);
  const steady = new Steady(messages);
  const seen = new SeenOnce();
  const handlers: Record<OursOptions['handler'], TestHandler> = {
    row: async ({ id, json, entityKey }, ctx) => {
      seen.see(id, entityKey);
      await ctx.manager.query(writeEffect, [id, entityKey, json.amount]);
    },
    nothing: ({ id, json, entityKey }) => {
      seen.see(id, entityKey, json.amount);
    },
    wait: async ({ id, entityKey }) => {
      seen.see(id, entityKey);
      await new Promise((resolve) => setTimeout(resolve, 5));
    },
  };
  const app = await startInboxApp(database, {
    handlers: { 'order.paid': handlers[handler] },
    inbox: {
      enabled: true,
      mode,
      lanes,
      // As many at once as by hand, and about as the peers. A handler that writes needs a connection, so there the defaults: 10 and 50.
      ...(mode === 'competing' && handler === 'nothing' ? { concurrency: 100, batchSize: 100 } : {}),
      sources: { test: { type: (push) => push.json.type, dedupKey: (push) => push.json.orderId } },
    },
    // As many connections as lanes, so that no handler waits for one.
    dataSource: { poolSize: Math.max(10, lanes) },
    prepare: (module) => module.get(MailroomEvents, { strict: false }).on('succeeded', () => steady.done()),
  });
  try {
    await waitUntil(() => steady.count >= messages, { what: 'all are handled', timeoutMs: limitMs, intervalMs: 20 });
  } finally {
    await app.close();
  }
  const inTables = await checkInbox(database, messages, handler === 'row');
  const inMemory = seen.wrong(messages);
  return {
    ...steady.pace(),
    lost: Math.max(inTables.lost, inMemory.lost),
    doubled: Math.max(inTables.doubled, inMemory.doubled),
    disordered: mode === 'ordered' ? Math.max(inTables.disordered, inMemory.disordered) : 0,
  };
}

/** What a handler was called with, for what no table can tell. */
class SeenOnce {
  private readonly ids: number[] = [];
  private readonly lastOf = new Map<string, number>();
  private disordered = 0;

  see(id: string, entity: unknown, _amount?: unknown): void {
    const number = Number(id);
    this.ids.push(number);
    const key = String(entity);
    if ((this.lastOf.get(key) ?? 0) > number) this.disordered++;
    this.lastOf.set(key, number);
  }

  wrong(messages: number): Wrong {
    const different = new Set(this.ids).size;
    return {
      lost: messages - different,
      doubled: this.ids.length - different,
      disordered: this.disordered,
    };
  }
}
