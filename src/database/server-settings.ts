import type { DataSource } from 'typeorm';
import type { ControlPool, Row } from './control-pool.js';
import type { Dialect } from './dialect.js';

/** One thing that was looked at when the application started. */
export interface StartUpCheck {
  /** For example `durability`. */
  readonly check: string;
  /** `warn`: it works, but a promise is weaker or something will be slow. */
  readonly status: 'ok' | 'warn';
  /** What was found. */
  readonly found: string;
  /** What to do about it; only with `warn`. */
  readonly advice?: string;
}

interface SettingsRow extends Row {
  readonly flush: string;
  readonly binlog: string;
  readonly sync: string;
  readonly zone: string;
  readonly micros: string;
  readonly sqlMode: string;
  readonly packet: string;
  readonly isolation: string;
}

/** Senders sign with their clocks, logs are read side by side: beyond this the two clocks are told apart. */
const clockToleranceMs = 2_000;
const mib = 1024 * 1024;
const smallPacketMib = 4;

/**
 * How the server is set up, as far as mailroom's promises rest on it. Two statements, of which one on a connection of the
 * application's own pool: its time zone, mode and isolation are what handlers get. Locks nothing.
 */
export async function serverChecks(
  pool: Pick<ControlPool, 'rows'>,
  dataSource: Pick<DataSource, 'query'>,
  dialect: Dialect,
): Promise<StartUpCheck[]> {
  const before = Date.now();
  const [server] = await pool.rows<SettingsRow>(
    `SELECT CAST(@@GLOBAL.innodb_flush_log_at_trx_commit AS CHAR) AS \`flush\`, CAST(@@GLOBAL.log_bin AS CHAR) AS \`binlog\`,
            CAST(@@GLOBAL.sync_binlog AS CHAR) AS \`sync\`, CAST(@@GLOBAL.max_allowed_packet AS CHAR) AS \`packet\`,
            CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS CHAR) AS \`micros\``,
  );
  const after = Date.now();
  const [session] = (await dataSource.query(
    `SELECT CAST(@@SESSION.time_zone AS CHAR) AS \`zone\`, CAST(@@SESSION.sql_mode AS CHAR) AS \`sqlMode\`,
            CAST(@@SESSION.${dialect.isolationVariable} AS CHAR) AS \`isolation\``,
  )) as SettingsRow[];
  if (!server || !session) return [];
  return [
    { check: 'version', status: 'ok', found: `${dialect.flavour} ${dialect.version}, Node.js ${process.version}` },
    durability(server),
    clock(Number(server.micros) / 1_000, before, after),
    timeZone(session),
    sqlMode(session),
    isolation(session),
    packet(server),
  ];
}

/** A commit that the server acknowledges is on disk only with these; a 2xx of ours rests on it. */
function durability({ flush, binlog, sync }: SettingsRow): StartUpCheck {
  const lazyBinlog = binlog === '1' && sync !== '1';
  const found = `innodb_flush_log_at_trx_commit = ${flush}, sync_binlog = ${sync}${binlog === '1' ? '' : ' (no binary log)'}`;
  if (flush === '1' && !lazyBinlog) return { check: 'durability', status: 'ok', found };
  const advice =
    'messages that were acknowledged can be lost when the machine of the database fails: set innodb_flush_log_at_trx_commit = 1 and sync_binlog = 1';
  return { check: 'durability', status: 'warn', found, advice };
}

/** The answer was made somewhere between the two moments. */
function clock(serverMs: number, before: number, after: number): StartUpCheck {
  const offMs = Math.round(Math.max(before - serverMs, serverMs - after, 0));
  const found = `${offMs} ms between this machine and the database`;
  if (offMs <= clockToleranceMs) return { check: 'clock', status: 'ok', found };
  const advice =
    'due times and leases go by the database and are right, but signatures with a time may be refused and logs do not line up: let both machines follow NTP';
  return { check: 'clock', status: 'warn', found, advice };
}

/** Ours are UTC by themselves. What handlers write with NOW() into DATETIME columns is in the session's zone. */
function timeZone({ zone }: SettingsRow): StartUpCheck {
  const found = `time_zone = ${zone} for handlers`;
  if (zone === '+00:00' || zone === 'UTC' || zone === 'SYSTEM') return { check: 'time-zone', status: 'ok', found };
  const advice =
    "mailroom's own times are UTC all the same; NOW() in handlers is not. Set it to '+00:00' where you compare the two";
  return { check: 'time-zone', status: 'warn', found, advice };
}

function sqlMode({ sqlMode: mode }: SettingsRow): StartUpCheck {
  const isStrict = /STRICT_(TRANS|ALL)_TABLES/.test(mode);
  const found = `sql_mode = ${mode === '' ? "''" : mode}`;
  if (isStrict) return { check: 'sql-mode', status: 'ok', found };
  const advice =
    'what handlers write is cut to fit without an error, and the message is a success: add STRICT_TRANS_TABLES';
  return { check: 'sql-mode', status: 'warn', found, advice };
}

/** Ours are READ COMMITTED by themselves, handlers' too. */
function isolation({ isolation: level }: SettingsRow): StartUpCheck {
  const found = `${level} for the application; mailroom and handlers use READ-COMMITTED`;
  if (level !== 'SERIALIZABLE') return { check: 'isolation', status: 'ok', found };
  const advice =
    'reads of the application lock what mailroom writes, so deadlocks will be usual: use READ-COMMITTED or REPEATABLE-READ';
  return { check: 'isolation', status: 'warn', found, advice };
}

function packet({ packet: bytes }: SettingsRow): StartUpCheck {
  const found = `max_allowed_packet = ${Math.round((10 * Number(bytes)) / mib) / 10} MiB`;
  if (Number(bytes) >= smallPacketMib * mib) return { check: 'packet', status: 'ok', found };
  const advice = `pushes share a statement only as far as it fits in: set max_allowed_packet to ${smallPacketMib} MiB or more`;
  return { check: 'packet', status: 'warn', found, advice };
}
