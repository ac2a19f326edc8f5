import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { waitUntil } from '../wait-until.js';
import { answers, isRunning, type LauncherRun, launch, recordedProcesses, start } from './launcher-run.js';

/** A script for {@link LauncherFixture.run} that prints its URLs and then waits for a signal. */
export const serving = `console.log('serving', process.env.DATABASE_URL, process.env.REDIS_URL, '.');
  setInterval(() => {}, 1000);`;

/**
 * Launchers with a folder for temporary files of their own, so that what is left there is theirs. One per test;
 * {@link close} ends what still runs, however red the test is.
 */
export class LauncherFixture {
  readonly temporary = mkdtempSync(join(tmpdir(), 'launcher-spec-'));
  readonly #runs: LauncherRun[] = [];

  /** Starts `servers.mjs run <args> -- node -e <script>`. DATABASE_URL and REDIS_URL only from `env`. */
  run(args: readonly string[], script: string, env?: NodeJS.ProcessEnv): LauncherRun {
    return this.launch(['run', ...args, '--', process.execPath, '-e', script], env);
  }

  /** Starts `servers.mjs <args>`. */
  launch(args: readonly string[], env?: NodeJS.ProcessEnv): LauncherRun {
    return this.#track(launch(this.temporary, args, env));
  }

  /** Runs an ES module as a program. */
  runModule(source: string, env?: NodeJS.ProcessEnv): LauncherRun {
    return this.#track(start(this.temporary, ['--input-type=module', '-e', source], env));
  }

  /** Runs `servers.mjs sweep` to its end and expects that it succeeds. */
  async sweep(): Promise<void> {
    expect(await launch(this.temporary, ['sweep']).exited).toBe(0);
  }

  /** The URLs that {@link serving} printed, and the pids of all that the launchers' manifests name. */
  async serves(launcher: LauncherRun): Promise<{ database: string; redis: string; pids: readonly number[] }> {
    const [, database = '', redis = ''] = await launcher.prints(/serving (\S+) (\S+) \./);
    return { database, redis, pids: recordedProcesses(this.temporary).map(({ pid }) => pid) };
  }

  /** Ends a launcher as a crash does. Its servers and its command live on. */
  async crash(launcher: LauncherRun): Promise<void> {
    launcher.child.kill('SIGKILL');
    await waitUntil(() => !isRunning(launcher.child.pid ?? 0), { what: 'the launcher is gone' });
  }

  /** Expects no folder, none of these processes, and nothing that answers at these URLs. */
  async expectNothingLeft(pids: readonly number[], urls: readonly string[]): Promise<void> {
    expect(readdirSync(this.temporary)).toEqual([]);
    expect(pids.filter(isRunning)).toEqual([]);
    for (const url of urls) expect(await answers(url)).toBe(false);
  }

  async close(): Promise<void> {
    for (const { child } of this.#runs) child.kill('SIGTERM');
    const allGone = () => this.#runs.every(({ child }) => !isRunning(child.pid ?? 0));
    await waitUntil(allGone, { what: 'the launchers are gone' });
    // A command that outlived its launcher holds the pipes that `exited` waits for.
    await this.sweep();
    await Promise.all(this.#runs.map(({ exited }) => exited));
    rmSync(this.temporary, { recursive: true });
  }

  #track(launcher: LauncherRun): LauncherRun {
    this.#runs.push(launcher);
    return launcher;
  }
}
