import { InvalidSelectionError } from '../../errors/invalid-selection.error.js';
import type { RunBox } from './run-box.js';

/** Which messages a run takes. All that is given must hold. An empty selection is refused unless `all` is true. */
export interface Selection {
  /** At most 10,000. */
  readonly ids?: readonly (string | number | bigint)[];
  /** Inbox. */
  readonly source?: string;
  /** Inbox. */
  readonly type?: string;
  /** Outbox. */
  readonly topic?: string;
  /** Outbox. */
  readonly receiver?: string;
  /** Outbox. */
  readonly subject?: string;
  /** Inbox: the entity key as text; outbox: the message key. */
  readonly key?: string;
  /** Default: failed (inbox) or dead (outbox). success or sent only when it is named. */
  readonly status?: string;
  /** ISO 8601, or a Date: received (enqueued) from then on, and before. Without a zone: UTC, as in what is shown. */
  readonly receivedFrom?: string | Date;
  readonly receivedTo?: string | Date;
  /** Ended from then on, and before. */
  readonly failedFrom?: string | Date;
  readonly failedTo?: string | Date;
  readonly errorKind?: string;
  /** Text that the error message contains, as it is. */
  readonly errorContains?: string;
  readonly attemptsAtLeast?: number;
  /** Every message of the status. */
  readonly all?: boolean;
}

/** A condition over alias `m`, with its values. */
export interface Condition {
  readonly sql: string;
  readonly values: readonly unknown[];
  /** By which the messages are found. */
  readonly index: string;
}

const mostIds = 10_000;
const longestText = 500;

/**
 * The WHERE of a selection. Every value is bound; names of columns come from the box.
 * @throws InvalidSelectionError naming the field and what to write instead
 */
export function conditionOf(selection: Selection, box: RunBox): Condition {
  const given = Object.entries(selection ?? {}).filter(([, value]) => value !== undefined && value !== null);
  const { status = box.statuses[0], all, ...rest } = Object.fromEntries(given) as Selection;
  if (all !== undefined && typeof all !== 'boolean') throw new InvalidSelectionError('all', 'write true or false');
  if (Object.keys(rest).length === 0 && all !== true)
    throw new InvalidSelectionError('selection', 'it is empty; name what to take, or write all: true');
  if (!box.statuses.includes(String(status)))
    throw new InvalidSelectionError('status', `write one of ${box.statuses.join(', ')}`);
  const parts = Object.entries(rest).map(([name, value]) => partOf(name, value, box));
  return {
    sql: [box.mapped`m.status = ?`, ...parts.map(({ sql }) => sql)].join(' AND '),
    values: [status, ...parts.flatMap(({ values }) => values)],
    // Few have failed, so they are found by their status; of the others the table is read in its own order.
    index: rest.ids !== undefined || status !== box.statuses[0] ? 'PRIMARY' : box.claimIndex,
  };
}

function partOf(name: string, value: unknown, box: RunBox): Pick<Condition, 'sql' | 'values'> {
  const column = Object.hasOwn(box.filters, name) ? box.filters[name] : undefined;
  if (column !== undefined) return { sql: `m.${box.column(column)} = ?`, values: [Buffer.from(text(name, value))] };
  switch (name) {
    case 'ids': {
      const ids = idsOf(value);
      return { sql: box.mapped`m.id IN (${ids.map(() => '?').join(', ')})`, values: ids };
    }
    case 'errorKind':
      return { sql: box.mapped`m.error_kind = ?`, values: [text(name, value)] };
    case 'errorContains':
      return { sql: box.mapped`LOCATE(?, m.error_message) > 0`, values: [text(name, value)] };
    case 'attemptsAtLeast':
      if (!Number.isInteger(value) || Number(value) < 0)
        throw new InvalidSelectionError(name, 'write a whole number of at least 0');
      return { sql: box.mapped`m.attempts >= ?`, values: [value] };
    case 'receivedFrom':
      return { sql: `m.${box.column(box.receivedAt)} >= ?`, values: [instant(name, value)] };
    case 'receivedTo':
      return { sql: `m.${box.column(box.receivedAt)} < ?`, values: [instant(name, value)] };
    case 'failedFrom':
      return { sql: `m.${box.column(box.finishedAt)} >= ?`, values: [instant(name, value)] };
    case 'failedTo':
      return { sql: `m.${box.column(box.finishedAt)} < ?`, values: [instant(name, value)] };
    default:
      throw new InvalidSelectionError(name, `the ${box.name} has no such filter`);
  }
}

function idsOf(value: unknown): string[] {
  const ids = Array.isArray(value) ? value.map(String) : [];
  if (ids.length === 0 || ids.length > mostIds || ids.some((id) => !/^[1-9]\d{0,19}$/.test(id)))
    throw new InvalidSelectionError('ids', `write a list of 1 to ${mostIds} ids, each a positive whole number`);
  return ids;
}

function text(name: string, value: unknown): string {
  if (typeof value !== 'string' || value === '' || value.length > longestText)
    throw new InvalidSelectionError(name, `write text of 1 to ${longestText} characters`);
  return value;
}

/** As the tables store instants: UTC, without a zone. What says no zone, as what is shown, is UTC, too. */
function instant(name: string, value: unknown): string {
  const date = value instanceof Date ? value : new Date(typeof value === 'string' ? utc(value) : Number.NaN);
  const year = date.getUTCFullYear();
  if (Number.isNaN(date.getTime()) || year < 1970 || year > 9999)
    throw new InvalidSelectionError(name, 'write an instant such as 2026-01-31T12:00:00Z');
  return date.toISOString().slice(0, 23).replace('T', ' ');
}

/** What else Date reads is a guess, and a time without a zone would be that of this process. */
function utc(text: string): string {
  const [, day, time, zone] = /^(\d{4}-\d{2}-\d{2})(?:[T ]([\d:.]{5,16})(Z|[+-]\d{2}:?\d{2})?)?$/.exec(text) ?? [];
  if (day === undefined) return '';
  return time === undefined ? day : `${day}T${time}${zone ?? 'Z'}`;
}
