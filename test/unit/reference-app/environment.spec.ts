// The environment of the reference application: what it takes, what it says about a wrong one, and its page in the docs.
import { readFileSync } from 'node:fs';
import {
  EnvironmentError,
  leaseBackend,
  readEnvironment,
  variableNames,
} from '../../../src/reference-app/environment.js';

const database = { DATABASE_URL: 'mysql://root@127.0.0.1:3306/shop' };

const problemOf = (variables: Readonly<Record<string, string>>): string => {
  try {
    readEnvironment(variables);
  } catch (error) {
    if (error instanceof EnvironmentError) return error.message;
    throw error;
  }
  throw new Error('the environment was taken');
};

/** The rows of the environment table: names, then the default. */
function documented(): Map<string, string> {
  const page = readFileSync(new URL('../../../docs/reference-app.md', import.meta.url), 'utf8');
  const section = page.split('## Environment')[1]?.split('\n## ')[0] ?? '';
  const rows = section.split('\n').filter((line) => line.startsWith('| `'));
  return new Map(
    rows.flatMap((row) => {
      const [, names = '', defaults = ''] = row.split('|').map((cell) => cell.trim());
      const each = defaults.split(', ');
      const found = [...names.matchAll(/`([A-Z_]+)`/g)].map(([, name = '']) => name);
      return found.map((name, at): [string, string] => [name, found.length === 1 ? defaults : (each[at] ?? '')]);
    }),
  );
}

test('the page lists exactly the variables that the application reads', () => {
  expect([...documented().keys()].sort()).toEqual([...variableNames].sort());
});

test('every default on the page is the one that the application takes', () => {
  const environment: Readonly<Record<string, unknown>> = readEnvironment(database);
  for (const [name, shown] of documented()) {
    if (name === 'DATABASE_URL' || name === 'LEASE_BACKEND') continue;
    const value = environment[name];
    expect(`${name} ${value === undefined ? 'none' : String(value)}`).toBe(`${name} ${shown}`);
  }
});

test('an empty variable counts as absent', () => {
  expect(readEnvironment({ ...database, PORT: '', ORDERS_SECRET: '' })).toMatchObject({ PORT: 3000 });
});

test('leases are kept in Redis where there is one, unless told otherwise', () => {
  const redis = { ...database, REDIS_URL: 'redis://127.0.0.1:6379' };
  expect(leaseBackend(readEnvironment(database))).toBe('database');
  expect(leaseBackend(readEnvironment(redis))).toBe('redis');
  expect(leaseBackend(readEnvironment({ ...redis, LEASE_BACKEND: 'database' }))).toBe('database');
});

test('each wrong variable has a line of its own', () => {
  const lines = problemOf({ ...database, PORT: '70000', MIGRATE: 'yes', LEASE_BACKEND: 'etcd' }).split('\n');
  expect(lines.map((line) => line.split(':')[0])).toEqual(['PORT', 'LEASE_BACKEND', 'MIGRATE']);
});

test.each([
  ['DATABASE_URL', 'postgres://u:hunter2@h/d'],
  ['REDIS_URL', 'http://:hunter2@h'],
  ['ORDERS_SECRET', 'hunter2'],
  ['GITHUB_SECRET', 'hunter2'],
  ['ADMIN_TOKEN', 'hunter2'],
  ['INBOX_LANES', 'hunter2'],
  ['INBOX_BACKOFF_SECONDS', '1,hunter2'],
  ['INBOX_ORPHAN_MINUTES', '0'],
  ['INBOX_ENABLED', 'TRUE'],
  ['SHUTDOWN_DEADLINE_MS', '1.5'],
])('a wrong %s is named, and its value is not repeated', (name, value) => {
  const problem = problemOf({ ...database, [name]: value });
  expect(problem).toMatch(new RegExp(`^${name}: write .+`));
  expect(problem).not.toContain('\n');
  expect(problem).not.toContain('hunter2');
});
