import { readFile, writeFile } from 'node:fs/promises';
import type { Flavour } from '../database.js';

const HEADER = `-- The schema after all migrations. Written by the tests when UPDATE_SCHEMA=1 is set, so that a change of it is seen
-- in a review: see test/integration/migrations.spec.ts.
`;

/** The committed schema of a flavour, without its header. Rewrites the file with `current` first when UPDATE_SCHEMA=1 is set. */
export async function committedSchema(flavour: Flavour, current: string): Promise<string> {
  const file = new URL(`./${flavour}.sql`, import.meta.url);
  if (process.env.UPDATE_SCHEMA === '1') await writeFile(file, `${HEADER}\n${current}`);
  return (await readFile(file, 'utf8')).slice(HEADER.length + 1);
}
