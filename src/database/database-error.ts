/** Errors of MySQL and MariaDB that are expected and have a meaning here. Everything else surfaces as it is. */

interface DriverError {
  readonly errno?: unknown;
  readonly code?: unknown;
  readonly sqlMessage?: unknown;
  readonly message?: unknown;
  readonly fatal?: unknown;
}

/** TypeORM wraps the driver's error and keeps it in `driverError`; mysql2 throws it bare. */
function driverErrorOf(error: unknown): DriverError | undefined {
  if (typeof error !== 'object' || error === null) return undefined;
  const wrapped = (error as { driverError?: unknown }).driverError;
  return (typeof wrapped === 'object' && wrapped !== null ? wrapped : error) as DriverError;
}

function errno(error: unknown): number | undefined {
  const value = driverErrorOf(error)?.errno;
  return typeof value === 'number' ? value : undefined;
}

/**
 * True for a violation of a unique key (1062, 1586). With `key` only for that key: the server names it in its message,
 * with or without the table before it.
 */
export function isDuplicateKey(error: unknown, key?: string): boolean {
  const number = errno(error);
  if (number !== 1062 && number !== 1586) return false;
  if (key === undefined) return true;
  const text = String(driverErrorOf(error)?.sqlMessage ?? driverErrorOf(error)?.message ?? '');
  return text.endsWith(`for key '${key}'`) || text.endsWith(`.${key}'`);
}

/** 1213 deadlock and 1020 record changed (MariaDB, REPEATABLE READ): the server rolled the whole transaction back. */
export function isDeadlock(error: unknown): boolean {
  const number = errno(error);
  return number === 1213 || number === 1020;
}

/** 1205: a lock wait timed out, which is also what NOWAIT says on MariaDB; 3572 is MySQL's word for NOWAIT. */
export function isLockUnavailable(error: unknown): boolean {
  const number = errno(error);
  return number === 1205 || number === 3572;
}

const connectionCodes = new Set([
  'PROTOCOL_CONNECTION_LOST',
  'PROTOCOL_SEQUENCE_TIMEOUT',
  'PROTOCOL_PACKETS_OUT_OF_ORDER',
  'PROTOCOL_ENQUEUE_AFTER_FATAL_ERROR',
  'ECONNRESET',
  'ECONNREFUSED',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'ENOTFOUND',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
]);

/** 1040, 1203, 1226 too many connections, 1053 shutdown, 1927/1928 killed (MariaDB), 2006/2013 gone, 3169 killed session, 4031 idle disconnect. */
const connectionNumbers = new Set([
  1040, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1203, 1226, 1317, 1927, 1928, 2006, 2013, 3169, 4031,
]);

/** The connection is unusable or never came up. What was sent last may or may not have been carried out. */
export function isConnectionError(error: unknown): boolean {
  const inner = driverErrorOf(error);
  if (!inner) return false;
  if (inner.fatal === true) return true;
  if (typeof inner.code === 'string' && connectionCodes.has(inner.code)) return true;
  if (typeof inner.errno === 'number' && connectionNumbers.has(inner.errno)) return true;
  return (
    typeof inner.message === 'string' && /closed state|Pool is closed|Connection lost|is closed/.test(inner.message)
  );
}

/** 1290, 1792, 1836: this server is read-only, as after a failover. Its connections must be given up. */
export function isReadOnly(error: unknown): boolean {
  const number = errno(error);
  return number === 1290 || number === 1792 || number === 1836;
}

/** The whole transaction is gone or in doubt after this error, whatever the caller makes of it. */
export function endsTransaction(error: unknown): boolean {
  return isDeadlock(error) || isLockUnavailable(error) || isConnectionError(error) || isReadOnly(error);
}

/** Running our own transaction again may succeed: nothing of it was kept. */
export function isRetryable(error: unknown): boolean {
  return isDeadlock(error) || isLockUnavailable(error);
}
