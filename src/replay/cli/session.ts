import type { z } from 'zod';
import { ControlPool } from '../../database/index.js';
import {
  type InboxTableOption,
  inboxRunBoxOf,
  type RunBox,
  tableOf,
  type tableOption,
} from '../../delivery/runs/index.js';
import { ReplayService } from '../replay.service.js';
import { resolveReplayOptions } from '../replay-options.js';
import { UsageError } from './exit-codes.js';

/** Where the messages are. */
export interface SessionFlags {
  readonly url?: string;
  readonly inboxTable?: string;
}

/** What a command works with. */
export interface Session {
  readonly inbox: RunBox;
  readonly inboxTable: z.output<typeof tableOption>;
  readonly pool: ControlPool;
  readonly replay: ReplayService;
}

/** Opens the database of the URL for the time of `work`. Connections are opened with the first statement. */
export async function withSession<T>(
  { url, inboxTable }: SessionFlags,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const given = databaseUrl(url);
  // Without TypeORM, which takes longer to load than most commands to run.
  const pool = new ControlPool({ options: { type: 'mysql', url: given } }, { size: 2 });
  try {
    const table = inboxTableOf(inboxTable ?? process.env.MAILROOM_INBOX_TABLE);
    const options = resolveReplayOptions({ edit: process.env.MAILROOM_EDIT === 'true', ...table });
    const inbox = inboxRunBoxOf(tableOf(options.inboxTable));
    return await work({
      pool,
      inbox,
      inboxTable: options.inboxTable,
      replay: new ReplayService(pool, options, () => undefined),
    });
  } finally {
    await pool.close();
  }
}

/** As in the application's options: a name, or JSON with the columns too. */
export function inboxTableOf(given: string | undefined): { readonly inboxTable?: InboxTableOption } {
  if (!given) return {};
  if (!given.startsWith('{')) return { inboxTable: { name: given } };
  try {
    return { inboxTable: JSON.parse(given) as InboxTableOption };
  } catch {
    throw new UsageError(
      '--inbox-table: write a name, or JSON such as {"name":"message_log","columns":{"body":"msgStr"}}',
    );
  }
}

/** @throws UsageError saying what to write */
export function databaseUrl(url: string | undefined): string {
  const given = url ?? process.env.DATABASE_URL;
  if (!given) throw new UsageError('--url: write mysql://user:password@host:3306/database, or set DATABASE_URL');
  if (!/^(mysql|mariadb):$/.test(URL.canParse(given) ? new URL(given).protocol : ''))
    throw new UsageError('--url: write a URL such as mysql://user:password@host:3306/database');
  return given;
}
