/** Flags that the server sends with every OK packet (MySQL client/server protocol, SERVER_STATUS_flags_enum). */
const inTransaction = 0x0001;
const autocommit = 0x0002;

/** The OK packet of a statement that returns no rows, as mysql2 hands it over. */
export interface StatementResult {
  readonly affectedRows: number;
  readonly insertId: number | string;
  readonly serverStatus: number;
}

export function isStatementResult(value: unknown): value is StatementResult {
  return typeof value === 'object' && value !== null && 'serverStatus' in value && 'affectedRows' in value;
}

export function saysInTransaction(result: StatementResult): boolean {
  return (result.serverStatus & inTransaction) !== 0;
}

/** The statement is committed: autocommit is on and no transaction is open around it. */
export function saysCommitted(result: StatementResult): boolean {
  return (result.serverStatus & autocommit) !== 0 && (result.serverStatus & inTransaction) === 0;
}
