import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { waitUntil } from '../wait-until.js';

const script = fileURLToPath(new URL('../../../scripts/servers.mjs', import.meta.url));

// A private MySQL takes its time to initialise itself on a busy machine.
const deadlineMs = 30_000;

/** A process that a launcher wrote into the manifest of one of its folders. */
export interface RecordedProcess {
  readonly pid: number;
  readonly startedAt: string;
  readonly mark: string;
}

/** A launcher that runs: `node scripts/servers.mjs ...`, or any other program given to {@link start}. */
export interface LauncherRun {
  readonly child: ChildProcess;
  readonly exited: Promise<number | null>;
  /** All of its output so far, its command's included. */
  output(): string;
  /** Resolves with the first match of `pattern` in the output; rejects with the output when the program ends without it. */
  prints(pattern: RegExp): Promise<RegExpExecArray>;
}

/** Starts the launcher with `temporary` as its folder for temporary files. DATABASE_URL and REDIS_URL only from `env`. */
export function launch(temporary: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): LauncherRun {
  return start(temporary, [script, ...args], env);
}

/** Starts Node.js with `args`, otherwise as {@link launch} does. */
export function start(temporary: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): LauncherRun {
  const { DATABASE_URL: _database, REDIS_URL: _redis, ...inherited } = process.env;
  const options = { env: { ...inherited, NODE_OPTIONS: '', TMPDIR: temporary, ...env } };
  // A group of its own, as a shell gives each command: signalAsTerminal() must not reach the tests.
  const child = spawn(process.execPath, args, { ...options, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
  const exited = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  let ended = false;
  void exited.then(() => {
    ended = true;
  });
  const prints = async (pattern: RegExp) => {
    const what = `the program prints ${pattern}`;
    await waitUntil(() => pattern.test(output) || ended, { what, timeoutMs: deadlineMs });
    const match = pattern.exec(output);
    if (match === null) throw new Error(`the program ended before ${what}:\n${output}`);
    return match;
  };
  return { child, exited, output: () => output, prints };
}

/** Sends a signal as a terminal does on Ctrl-C: to the launcher's whole process group. */
export function signalAsTerminal(launcher: LauncherRun, signal: NodeJS.Signals): void {
  const { pid } = launcher.child;
  if (pid !== undefined && isRunning(pid)) process.kill(-pid, signal);
}

/** The folders of private servers in a folder for temporary files. */
export function serverFolders(temporary: string): readonly string[] {
  return readdirSync(temporary)
    .filter((name) => name.startsWith('nestjs-mailroom-server-'))
    .map((name) => join(temporary, name));
}

/** What the manifests of all server folders name. */
export function recordedProcesses(temporary: string): readonly RecordedProcess[] {
  return serverFolders(temporary)
    .filter((folder) => existsSync(join(folder, 'manifest.json')))
    .flatMap((folder) => {
      const manifest = JSON.parse(readFileSync(join(folder, 'manifest.json'), 'utf8'));
      return manifest.processes as readonly RecordedProcess[];
    });
}

/** Whether a process runs. A zombie does not: it only waits for its parent to look at it. */
export function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return !existsSync(`/proc/${pid}/stat`) || !/\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/** Whether something accepts connections where a URL points. */
export function answers(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port) });
    const finish = (answer: boolean) => {
      socket.destroy();
      resolve(answer);
    };
    socket.on('connect', () => finish(true)).on('error', () => finish(false));
  });
}
