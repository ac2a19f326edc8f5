import type { z } from 'zod';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';

/**
 * Parses options and reports the first problem with its full path, the value and what to write instead.
 * @param root how the option tree is called in messages, for example `inbox`
 */
export function parseOptions<T extends z.ZodType>(schema: T, value: unknown, root: string): z.output<T> {
  const result = schema.safeParse(value, { reportInput: true });
  if (result.success) return result.data;
  const issue = firstIssue(result.error.issues as readonly Issue[]);
  const path = [root, ...issue.path.map(String)].join('.');
  if (issue.code === 'unrecognized_keys') {
    throw new InvalidOptionsError(
      `${path}.${issue.keys?.[0] ?? '?'}`,
      undefined,
      'this option does not exist; remove it or correct its name',
    );
  }
  throw new InvalidOptionsError(path, issue.input, issue.message);
}

interface Issue {
  readonly code: string;
  readonly path: readonly PropertyKey[];
  readonly message: string;
  readonly input?: unknown;
  readonly keys?: readonly string[];
  readonly errors?: readonly (readonly Issue[])[];
}

/**
 * A union reports one list of problems per branch; the branch that got furthest is what the user meant. If none got
 * anywhere, the last branch says what the union takes, unless the union has words of its own.
 */
function firstIssue(issues: readonly Issue[]): Issue {
  const issue = issues[0];
  if (!issue) return { code: 'custom', path: [], message: 'is not valid' };
  const deepest = (issue.errors ?? [])
    .map((branch) => branch[0])
    .filter((inner) => inner !== undefined && inner.path.length > 0)[0];
  if (deepest) return { ...deepest, path: [...issue.path, ...deepest.path] };
  const last = issue.errors?.at(-1)?.[0];
  return last && issue.message === 'Invalid input' ? { ...last, path: issue.path } : issue;
}
