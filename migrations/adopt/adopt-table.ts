import type { DataSource, MigrationInterface, QueryRunner } from 'typeorm';
import { ADOPTED_COLUMNS, type AdoptedColumnName } from './adopted-columns.js';
import type { Log } from './online-alter.js';
import { enterPhase1, enterPhase2, leavePhase1, leavePhase2, type PhaseOptions } from './phases.js';
import { type AdoptedTable, refusal } from './table-state.js';

export interface AdoptTableOptions {
  /** The table that becomes the inbox, in the database of the data source. */
  readonly table: string;
  /**
   * As in `inbox.table.columns`. A column that is there is used as it is (id, source, type, headers, contentType, body,
   * receivedAt); for the others it is the name under which ours is added. Default: our own names.
   */
  readonly columns?: Readonly<Partial<Record<AdoptedColumnName, string>>>;
  /** What rows that others insert have as source and type, where these columns are added. Default: ''. */
  readonly defaults?: Readonly<Partial<Record<'source' | 'type', string>>>;
  /** When the two migrations were written, in milliseconds: their place among yours. Default: right after our own tables. */
  readonly timestamps?: readonly [phase1: number, phase2: number];
  /** Where the server cannot change the table beside its writers it may copy it, with writers waiting. Default false. */
  readonly allowCopy?: boolean;
  /** How long a change is tried while transactions keep the table, in milliseconds. Default 10 minutes. */
  readonly lockPatienceMs?: number;
  /** Gets progress, a line at a time. Default: standard error. */
  readonly log?: Log;
}

/** The two migrations. Never put both into one release: see `adoptTable`. */
export interface Adoption {
  readonly phase1: new () => MigrationInterface;
  readonly phase2: new () => MigrationInterface;
}

const identifier = /^[A-Za-z_][A-Za-z0-9_$]{0,63}$/;
const word = /^[\x21-\x26\x28-\x5b\x5d-\x7e]{1,64}$/;

/** Data sources on which phase 1 did something in this process. */
const justEntered = new WeakMap<DataSource, Set<string>>();

/**
 * Turns a table that you have into an inbox, in two migrations, beside its traffic and without replaying its history.
 *
 * `phase1` adds columns, with the status 'success' by default, and indexes: no row that is there, and none that code which
 * does not know of it inserts, is consumed. `phase2` changes the default to 'pending' for rows inserted from then on. Run it
 * when no instance of the old code is left: give it to the data source one release later.
 *
 * Each can be run again after a failure in the middle, by several processes at once, and be reverted. Each statement commits
 * by itself. `down` of either refuses while messages are not finished, unless MAILROOM_FORCE_DOWN=true.
 *
 * @throws RangeError for a name that is no plain identifier, or a default that is not printable ASCII
 */
export function adoptTable(options: AdoptTableOptions): Adoption {
  const adopted = checked(options);
  const { table } = adopted;
  const [first, second] = options.timestamps ?? [1764547200001, 1764547200002];
  if (!(first < second)) throw new RangeError('adoptTable: timestamps: the second migration comes after the first');
  const phase: PhaseOptions = {
    log: options.log ?? ((line) => void process.stderr.write(`mailroom migrations: ${line}\n`)),
    allowCopy: options.allowCopy ?? false,
    lockPatienceMs: options.lockPatienceMs ?? 600_000,
    defaults: options.defaults ?? {},
  };
  const force = () => process.env.MAILROOM_FORCE_DOWN === 'true';
  const named = table.replace(/(?:^|_)([a-z0-9])/gi, (_, letter: string) => letter.toUpperCase());
  return {
    phase1: class implements MigrationInterface {
      readonly name = `Adopt${named}${first}`;

      async up(queryRunner: QueryRunner): Promise<void> {
        if (await enterPhase1(queryRunner, adopted, phase)) remember(queryRunner.connection, table);
      }

      down(queryRunner: QueryRunner): Promise<void> {
        return leavePhase1(queryRunner, adopted, force(), phase);
      }
    },
    phase2: class implements MigrationInterface {
      readonly name = `Consume${named}${second}`;

      async up(queryRunner: QueryRunner): Promise<void> {
        if (justEntered.get(queryRunner.connection)?.has(table) && process.env.MAILROOM_ADOPT_AT_ONCE !== 'true')
          throw refusal(
            `phase 1 of ${table} was run a moment ago by this process, and phase 2 is for the time when no instance of the old ` +
              'code is left. Run it in a later step, or set MAILROOM_ADOPT_AT_ONCE=true if nothing else writes to the table',
          );
        await enterPhase2(queryRunner, adopted, phase);
      }

      down(queryRunner: QueryRunner): Promise<void> {
        return leavePhase2(queryRunner, adopted, force(), phase);
      }
    },
  };
}

function remember(dataSource: DataSource, table: string): void {
  const tables = justEntered.get(dataSource) ?? new Set();
  justEntered.set(dataSource, tables.add(table));
}

export function checked({ table, columns = {}, defaults = {} }: AdoptTableOptions): AdoptedTable {
  if (!identifier.test(table)) throw new RangeError(`adoptTable: table: not a plain name: ${JSON.stringify(table)}`);
  for (const [column, name] of Object.entries(columns)) {
    if (!Object.hasOwn(ADOPTED_COLUMNS, column))
      throw new RangeError(
        `adoptTable: columns: there is no ${column}; write one of ${Object.keys(ADOPTED_COLUMNS).join(', ')}`,
      );
    if (name === undefined || !identifier.test(name))
      throw new RangeError(`adoptTable: columns.${column}: not a plain name: ${JSON.stringify(name)}`);
  }
  for (const [column, value] of Object.entries(defaults))
    if (!['source', 'type'].includes(column) || value === undefined || !word.test(value))
      throw new RangeError(
        `adoptTable: defaults.${column}: write printable ASCII without ' and \\, for source or type`,
      );
  return { table, columns };
}
