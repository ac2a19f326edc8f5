import { type Command, InvalidArgumentError } from 'commander';
import type { MigrationInterface } from 'typeorm';
import type { AdoptTableOptions } from '../../../migrations/index.js';
import { outboxNeed, schemaProblems, schemaVersion, schemaVersionOf, sharedNeeds } from '../../database/index.js';
import { inboxNeeds, tableOf } from '../../delivery/runs/index.js';
import { SchemaMismatchError } from '../../errors/schema-mismatch.error.js';
import { resolveReplayOptions } from '../replay-options.js';
import { UsageError } from './exit-codes.js';
import { fields, say } from './print.js';
import { databaseUrl, inboxTableOf, type Session, type SessionFlags, withSession } from './session.js';

interface MigrateFlags extends SessionFlags {
  readonly json?: boolean;
  readonly phase?: 1 | 2;
  readonly allowCopy?: boolean;
  readonly defaultSource?: string;
  readonly defaultType?: string;
  readonly yes?: boolean;
}

const unchanged = 'Nothing was changed. Add --yes to do it.';

/** `migrate status | check | sql | up | down`: the tables of mailroom, and an adopted one. TypeORM is loaded when it is needed. */
export function addMigrateCommands(program: Command): void {
  const migrate = program
    .command('migrate')
    .description('the tables: what is there, what is missing, and how to get it');
  migrate
    .command('status')
    .description('which version the tables have, what is missing, how far an adoption is')
    .action(run((flags) => withSession(flags, (session) => status(session, flags))));
  migrate
    .command('check')
    .description('ends with 0 when this release can work with the tables, with 6 when it cannot; for a deploy step')
    .action(run((flags) => withSession(flags, (session) => check(session, flags))));
  adoptionFlags(migrate.command('sql').description('the statements, for a tool of your own; changes nothing')).action(
    run(sql),
  );
  adoptionFlags(migrate.command('up').description('creates the tables, or runs a phase of an adoption'))
    .option('--allow-copy', 'where a change cannot be made beside the writers, copy the table while they wait')
    .option('--yes', 'do it; without it the statements are shown')
    .action(run((flags) => move(flags, 'up')));
  adoptionFlags(migrate.command('down').description('takes a phase of an adoption back'))
    .option('--allow-copy', 'as with up')
    .option('--yes', 'do it; without it nothing is changed')
    .action(run((flags) => move(flags, 'down')));
}

function run(work: (flags: MigrateFlags) => Promise<void>) {
  return (_flags: unknown, command: Command) => work(command.optsWithGlobals<MigrateFlags>());
}

function adoptionFlags(command: Command): Command {
  return command
    .option('--phase <phase>', '1 or 2 of the adoption of --inbox-table', phaseOf)
    .option('--default-source <source>', 'with phase 1: source of rows that others insert')
    .option('--default-type <type>', 'with phase 1: their type');
}

function phaseOf(text: string): 1 | 2 {
  if (text === '1') return 1;
  if (text === '2') return 2;
  throw new InvalidArgumentError('write 1 or 2');
}

/** Loaded when it is needed: most commands have nothing to do with it. */
const loadMigrations = () => import('../../../migrations/index.js');

async function problemsOf({ pool, inboxTable }: Session): Promise<string[]> {
  const needs = [...inboxNeeds(tableOf(inboxTable)), outboxNeed, ...Object.values(sharedNeeds)];
  return schemaProblems(
    pool,
    needs.filter((need, n) => needs.findIndex(({ table }) => table === need.table) === n),
  );
}

async function versionOf({ pool }: Session): Promise<number | null> {
  return schemaVersionOf(pool).catch((error: { errno?: number }) => {
    if (error.errno === 1146) return null;
    throw error;
  });
}

async function status(session: Session, flags: MigrateFlags): Promise<void> {
  const problems = await problemsOf(session);
  const options = adoptionOf(session.inboxTable, flags);
  const state =
    options &&
    (await (
      await loadMigrations()
    ).adoptionState({ query: (text, values) => session.pool.rows(text, values) }, options));
  const found = {
    version: await versionOf(session),
    needed: schemaVersion,
    problems,
    ...(state ? { phase1: state.missing.length === 0 ? 'complete' : `missing ${state.missing.join(', ')}` } : {}),
    ...(state ? { phase2: state.defaultStatus === 'pending' ? 'complete' : 'not yet' } : {}),
  };
  say(flags.json, found, fields({ ...found, problems: problems.length === 0 ? 'none' : problems.join('; ') }));
}

async function check(session: Session, flags: MigrateFlags): Promise<void> {
  const problems = await problemsOf(session);
  const version = await versionOf(session);
  if (version === null || version < schemaVersion)
    problems.push(`the schema has version ${version ?? 'none'}, and ${schemaVersion} is needed`);
  if (problems.length > 0)
    throw new SchemaMismatchError(problems, 'See: mailroom migrate status; then: mailroom migrate up');
  say(flags.json, { version, problems }, `The tables fit: version ${version}.`);
}

async function sql(flags: MigrateFlags): Promise<void> {
  const statements = await statementsOf(flags);
  say(flags.json, statements, statements.map((statement) => `${statement};`).join('\n\n'));
}

async function statementsOf(flags: MigrateFlags): Promise<readonly string[]> {
  const { adoptionSql, mailroomMigrationsSql } = await loadMigrations();
  const { phase } = flags;
  if (phase === undefined) return mailroomMigrationsSql();
  if (!flags.url && !process.env.DATABASE_URL) {
    const options = adoptionOf(tableNamed(flags), flags);
    return adoptionSql(needed(options), phase);
  }
  return withSession(flags, async ({ pool, inboxTable }) => {
    const options = needed(adoptionOf(inboxTable, flags));
    const present = await pool.rows<{ name: string }>(
      'SELECT c.column_name AS name FROM information_schema.columns c WHERE c.table_schema = DATABASE() AND c.table_name = ?',
      [options.table],
    );
    return adoptionSql(
      options,
      phase,
      present.map(({ name }) => name),
    );
  });
}

async function move(flags: MigrateFlags, direction: 'up' | 'down'): Promise<void> {
  if (direction === 'down' && flags.phase === undefined)
    throw new UsageError('--phase: write 1 or 2; our own tables are dropped by hand');
  if (!flags.yes) {
    const statements = direction === 'up' ? await statementsOf(flags) : [];
    const text = [...statements.map((statement) => `${statement};`), unchanged].join('\n\n');
    return say(flags.json, { dryRun: true, statements }, text);
  }
  if (direction === 'up' && flags.phase === 2) await refuseBeforePhase1(flags);
  const { adoptTable, mailroomMigrations, runMigrationsExclusively } = await loadMigrations();
  const table = tableNamed(flags);
  const adopted =
    flags.phase === undefined
      ? null
      : adoptTable({ ...needed(adoptionOf(table, flags)), allowCopy: flags.allowCopy === true });
  const { DataSource } = await import('typeorm');
  const dataSource = await new DataSource({
    type: 'mysql',
    url: databaseUrl(flags.url),
    migrations: [
      ...mailroomMigrations(),
      ...(adopted ? [adopted.phase1] : []),
      ...(adopted && flags.phase === 2 ? [adopted.phase2] : []),
    ],
  }).initialize();
  try {
    const done =
      direction === 'up'
        ? await runMigrationsExclusively(dataSource)
        : await takeBack(dataSource, flags.phase === 1 ? adopted?.phase1 : adopted?.phase2);
    say(
      flags.json,
      { [direction]: done },
      done.length === 0 ? 'Everything was done before.' : `Done: ${done.join(', ')}`,
    );
  } finally {
    await dataSource.destroy();
  }
}

/** Both phases are given to TypeORM, which would begin with the first one: whoever asks for the second has not meant that. */
function refuseBeforePhase1(flags: MigrateFlags): Promise<void> {
  return withSession(flags, async ({ pool, inboxTable }) => {
    const options = needed(adoptionOf(inboxTable, flags));
    const { adoptionState } = await loadMigrations();
    const { missing } = await adoptionState({ query: (text, values) => pool.rows(text, values) }, options);
    if (missing.length > 0)
      throw new SchemaMismatchError(
        [`phase 1 of ${options.table} is not complete (missing: ${missing.join(', ')})`],
        'Nothing was changed. Run it with --phase 1, and phase 2 when no instance of the old code is left',
      );
  });
}

/** Reverts one migration by its name, and takes it out of the list of those that ran. */
async function takeBack(
  dataSource: import('typeorm').DataSource,
  Phase: (new () => MigrationInterface) | undefined,
): Promise<string[]> {
  if (!Phase) return [];
  const migration = new Phase();
  const runner = dataSource.createQueryRunner();
  try {
    await migration.down(runner);
    const [known] = await runner.query(
      "SELECT 1 AS one FROM information_schema.tables t WHERE t.table_schema = DATABASE() AND t.table_name = 'migrations'",
    );
    if (known) await runner.query('DELETE FROM migrations WHERE name = ?', [migration.name]);
    return [String(migration.name)];
  } finally {
    await runner.release();
  }
}

/** Null: the inbox is a table of mailroom's own. */
function adoptionOf(
  { name, columns }: Session['inboxTable'],
  { defaultSource, defaultType }: MigrateFlags,
): AdoptTableOptions | null {
  if (name === 'inbox_message') return null;
  return {
    table: name,
    columns: columns as NonNullable<AdoptTableOptions['columns']>,
    defaults: {
      ...(defaultSource === undefined ? {} : { source: defaultSource }),
      ...(defaultType === undefined ? {} : { type: defaultType }),
    },
  };
}

function needed(options: AdoptTableOptions | null): AdoptTableOptions {
  if (options) return options;
  throw new UsageError('--phase is for an adopted table: name it with --inbox-table');
}

/** The table that the flags name. */
function tableNamed(flags: MigrateFlags): Session['inboxTable'] {
  return resolveReplayOptions(inboxTableOf(flags.inboxTable ?? process.env.MAILROOM_INBOX_TABLE)).inboxTable;
}
