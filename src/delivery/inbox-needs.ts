import { inboxNeed, sharedNeeds, type TableNeed } from '../database/index.js';
import type { MessageTable } from './mapped-columns.js';

/** Columns that an adopted table may have had before, as its own type. */
const mayBeYours = new Set(['id', 'source', 'type', 'headers', 'content_type', 'body', 'received_at']);

/** The inbox's table as it has to be, under the names that it has. */
export function inboxNeeds({ name, column }: MessageTable): readonly TableNeed[] {
  const plain = (ours: string) => column(ours).replaceAll('`', '');
  const isOwn = name === inboxNeed.table;
  const columns = Object.entries(inboxNeed.columns).map(
    ([ours, type]) => [plain(ours), !isOwn && mayBeYours.has(ours) ? '' : type] as const,
  );
  const indexes = Object.entries(inboxNeed.indexes).map(([index, parts]) => [index, parts.map(plain)] as const);
  return [
    { table: name, columns: Object.fromEntries(columns), indexes: Object.fromEntries(indexes) },
    sharedNeeds.lease,
    sharedNeeds.instance,
    sharedNeeds.sequence,
    sharedNeeds.setting,
  ];
}
