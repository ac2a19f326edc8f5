import type { ControlPool, Row } from './control-pool.js';

/** What differs between the two servers. */
export interface Dialect {
  readonly flavour: 'mysql' | 'mariadb';
  /** As the server says it, for example `10.11.6-MariaDB`. */
  readonly version: string;
  /** Session variable of the isolation level: MariaDB learned MySQL's name in 11.1. */
  readonly isolationVariable: 'transaction_isolation' | 'tx_isolation';
}

const oldest = { mysql: [8, 0, 19], mariadb: [10, 6, 0] } as const;

/** Asks the server what it is. */
export async function detectDialect(pool: ControlPool): Promise<Dialect> {
  const [row] = await pool.rows<Row & { version: string }>('SELECT VERSION() AS version');
  return dialectOf(row?.version ?? '');
}

export function dialectOf(version: string): Dialect {
  const flavour = /mariadb/i.test(version) ? 'mariadb' : 'mysql';
  const old = flavour === 'mariadb' && isOlder(version, [11, 1, 0]);
  return { flavour, version, isolationVariable: old ? 'tx_isolation' : 'transaction_isolation' };
}

/** Null for a server that mailroom works with, otherwise what to do about it. SKIP LOCKED is what older ones lack. */
export function unsupportedServer(dialect: Dialect): string | null {
  const minimum = oldest[dialect.flavour];
  if (!isOlder(dialect.version, minimum)) return null;
  return `mailroom needs MySQL 8.0.19+ or MariaDB 10.6+, this server is ${dialect.version}: upgrade it, or point the DataSource elsewhere`;
}

function isOlder(version: string, than: readonly [number, number, number]): boolean {
  const parts = /(\d+)\.(\d+)\.(\d+)/.exec(version)?.slice(1).map(Number) ?? [0, 0, 0];
  for (const [index, minimum] of than.entries()) {
    const part = parts[index] ?? 0;
    if (part !== minimum) return part < minimum;
  }
  return false;
}
