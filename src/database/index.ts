/**
 * What the rest knows of MySQL and MariaDB: our own pool, the named errors, and the status flags that say whether a
 * statement is committed.
 *
 * Two kinds of connections are used. The control pool (control-pool.ts) carries everything of ours. A handler's own
 * writes go through a connection of the application's TypeORM pool (src/delivery/handler-transaction.ts), since only
 * there they are in one transaction with what the application's repositories do.
 *
 * Guarantees: a transaction of ours is READ COMMITTED; a connection that failed in a transaction is destroyed; no
 * statement waits longer than its timeout; times are compared on the database's clock only.
 */
export { applicationPoolSize } from './connection-config.js';
export { ControlConnection, type Row } from './control-connection.js';
export { ControlPool, type ControlPoolOptions } from './control-pool.js';
export * from './database-error.js';
export { destroyConnection } from './destroy-connection.js';
export { type Dialect, detectDialect, dialectOf, unsupportedServer } from './dialect.js';
export { applicationConnections, OpenConnections } from './open-connections.js';
export { PacketLimit } from './packet-limit.js';
export { migrateUp, passSchemaGate, type SchemaReader, schemaProblems, schemaVersionOf } from './schema-gate.js';
export { type StartUpCheck, serverChecks } from './server-settings.js';
export * from './server-status.js';
export { inboxNeed, outboxNeed, schemaVersion, sharedNeeds, type TableNeed } from './table-needs.js';
