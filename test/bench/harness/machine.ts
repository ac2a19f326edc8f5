import { cpus, release, totalmem, type } from 'node:os';
import type { TestDatabase } from '../../support/database.js';

/** What the figures hold for. */
export interface Machine {
  readonly cpu: string;
  readonly cores: number;
  readonly memoryGiB: number;
  readonly system: string;
  readonly node: string;
  /** The server, as it says it, and how durable its commits are. */
  readonly database: string;
  readonly durability: string;
}

export async function describeMachine(database: TestDatabase): Promise<Machine> {
  const [row] = await database.query<Record<string, number | string>>(
    `SELECT VERSION() AS version, @@innodb_flush_log_at_trx_commit AS flush, @@sync_binlog AS binlog_sync,
            @@log_bin AS binlog, @@innodb_buffer_pool_size AS pool`,
  );
  const binlog = Number(row?.binlog) === 1 ? `binary log on, sync_binlog ${row?.binlog_sync}` : 'no binary log';
  return {
    cpu: cpus()[0]?.model.trim() ?? 'unknown',
    cores: cpus().length,
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release().split('-')[0]}`,
    node: process.versions.node,
    database: `${database.flavour === 'mysql' ? 'MySQL' : 'MariaDB'} ${row?.version}`,
    durability: `innodb_flush_log_at_trx_commit ${row?.flush}, ${binlog}, buffer pool ${Number(row?.pool) / 2 ** 20} MiB`,
  };
}

export function machineLines(machine: Machine): string[] {
  const { cpu, cores, memoryGiB, system, node, database, durability } = machine;
  return [`${database} (${durability})`, `Node.js ${node}, ${system}, ${cores} x ${cpu}, ${memoryGiB} GiB`];
}
