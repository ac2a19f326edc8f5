// Phase 1 for a table that old code writes to and handles by itself:
//
//   CREATE TABLE message_log (
//     id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
//     msgStr MEDIUMTEXT NULL,
//     createTime DATETIME NOT NULL DEFAULT CURRENT_TIMESTAMP
//   )
//
// It adds our columns, with the status 'success' by default, and three indexes. No row that is there is consumed, and none that
// the old code inserts. Deploy it with the new code and `inbox.enabled: false`; docs/rollout.md tells the whole way.
import { adoptTable } from '../index.js';

/** The same names stand in `inbox.table` of the application. */
export const messageLog = { name: 'message_log', columns: { receivedAt: 'createTime' } } as const;

export const adoption = adoptTable({
  table: messageLog.name,
  columns: messageLog.columns,
  timestamps: [1764633600000, 1764720000000],
});

export const AdoptMessageLog1764633600000 = adoption.phase1;
