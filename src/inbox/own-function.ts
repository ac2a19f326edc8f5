import { IntakeRefusedError } from '../errors/intake-refused.error.js';

/**
 * Calls a function of a source. What it throws says that the push is not as expected.
 * @throws IntakeRefusedError 400 for a throw; 503 for a promise: then it is the function that is wrong, and no push may be
 *   lost for it. A rejection of that promise would end the process if nobody took it.
 */
export function callOwn<T>(source: string, option: string, run: () => T): T {
  let value: T;
  try {
    value = run();
  } catch (error) {
    throw new IntakeRefusedError('invalid', `source ${source}: ${option} could not be read from the push`, {
      cause: error,
    });
  }
  if (value instanceof Promise) {
    value.catch(() => undefined);
    throw new IntakeRefusedError('unavailable', `source ${source}: ${option} cannot be asked; push it again`, {
      cause: `${option} is asynchronous: it must answer at once, from the push alone`,
    });
  }
  return value;
}
