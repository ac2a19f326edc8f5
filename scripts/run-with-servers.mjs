// The one way in which the checkout's commands run: set-up, servers, command, clean-up.

import { takeForeground } from './servers/foreground.mjs';
import { toStandardError } from './servers/log.mjs';
import { startServers } from './servers.mjs';
import { build, installDependencies, requireNode } from './setup.mjs';

/**
 * Sets the checkout up (see setup.mjs), finds or starts servers (`options` as in startServers), and runs a command with
 * DATABASE_URL and REDIS_URL. Resolves with the exit code: the command's own, 128 plus the signal's number after a signal,
 * or that of the step that failed, whose reason is on standard error by then. Nothing is left running.
 */
export async function runWithServers(name, options, program, args) {
  const foreground = takeForeground();
  try {
    requireNode();
    await installDependencies(foreground, toStandardError);
    await build(foreground, toStandardError);
    const servers = await startServers(options);
    const env = { DATABASE_URL: servers.databaseUrl, REDIS_URL: servers.redisUrl };
    const code = await foreground.run(program, args, { env, onStart: servers.record });
    await servers.stop();
    return foreground.exitCode(code);
  } catch (error) {
    toStandardError(`${name}: ${error.message}`);
    return foreground.exitCode(error.exitCode ?? 1);
  }
}
