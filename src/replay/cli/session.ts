import { ControlPool } from '../../database/index.js';
import { ReplayService } from '../replay.service.js';
import { resolveReplayOptions } from '../replay-options.js';
import { UsageError } from './exit-codes.js';

/** What a command works with. */
export interface Session {
  readonly pool: ControlPool;
  readonly replay: ReplayService;
}

/** Opens the database of the URL for the time of `work`. Connections are opened with the first statement. */
export async function withSession<T>(url: string | undefined, work: (session: Session) => Promise<T>): Promise<T> {
  const given = url ?? process.env.DATABASE_URL;
  if (!given) throw new UsageError('--url: write mysql://user:password@host:3306/database, or set DATABASE_URL');
  if (!/^(mysql|mariadb):$/.test(URL.canParse(given) ? new URL(given).protocol : ''))
    throw new UsageError('--url: write a URL such as mysql://user:password@host:3306/database');
  // Without TypeORM, which takes longer to load than most commands to run.
  const pool = new ControlPool({ options: { type: 'mysql', url: given } }, { size: 2 });
  try {
    const options = resolveReplayOptions({ edit: process.env.MAILROOM_EDIT === 'true' });
    return await work({ pool, replay: new ReplayService(pool, options, () => undefined) });
  } finally {
    await pool.close();
  }
}
