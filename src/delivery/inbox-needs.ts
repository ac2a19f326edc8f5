import { inboxNeed, sharedNeeds, type TableNeed } from '../database/index.js';
import type { MessageTable } from './mapped-columns.js';

const text = 'varchar|char|text|tinytext|mediumtext|longtext';

/** Columns that an adopted table may have had before, and what they may be: as phase 1 of adoptTable takes them. */
const mayBeYours: Readonly<Record<string, string>> = {
  id: 'bigint|int|mediumint',
  source: text,
  type: text,
  headers: 'json|longtext|mediumtext|text',
  content_type: text,
  body: `longblob|blob|tinyblob|mediumblob|varbinary|json|${text}`,
  received_at: 'datetime|timestamp',
};

/** The inbox's table as it has to be, under the names that it has. */
export function inboxNeeds({ name, column }: MessageTable): readonly TableNeed[] {
  const plain = (ours: string) => column(ours).replaceAll('`', '');
  const isOwn = name === inboxNeed.table;
  const columns = Object.entries(inboxNeed.columns).map(
    ([ours, type]) => [plain(ours), (isOwn ? undefined : mayBeYours[ours]) ?? type] as const,
  );
  const indexes = Object.entries(inboxNeed.indexes).map(([index, parts]) => [index, parts.map(plain)] as const);
  return [
    {
      table: name,
      columns: Object.fromEntries(columns),
      indexes: Object.fromEntries(indexes),
      unique: inboxNeed.unique ?? {},
    },
    sharedNeeds.lease,
    sharedNeeds.instance,
    sharedNeeds.sequence,
    sharedNeeds.setting,
  ];
}
