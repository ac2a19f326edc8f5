import { type ChildProcess, spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { opened } from './open-resources.js';
import { PrintedLines } from './printed-lines.js';
import { waitUntil } from './wait-until.js';

/** How a child ended: by itself with a code, or by a signal. */
export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A Node.js process that a test started, to be killed, frozen or watched. */
export interface Child {
  readonly pid: number;
  /** Everything it has printed so far, standard output and standard error each in its order. */
  readonly stdout: string;
  readonly stderr: string;
  /** Resolves when it has ended and its output is complete. Never rejects. */
  readonly ended: Promise<ChildEnd>;
  /**
   * Resolves with the next line of standard output that holds `text` or matches it: each line is given out once, in order.
   *
   * @param timeoutMs default 10 s
   * @throws Error with the child's output when it ends before, or prints no such line in time
   */
  line(text: string | RegExp, timeoutMs?: number): Promise<string>;
  /** Sends a signal. SIGSTOP freezes it, SIGCONT lets it go on. Does nothing once it ended. */
  signal(name: NodeJS.Signals): void;
  /** Writes a line to its standard input. */
  send(line: string): void;
  /** SIGKILL, and waits until it is gone. For the end of a test; does nothing once it ended. */
  kill(): Promise<ChildEnd>;
}

export interface ChildOptions {
  readonly args?: readonly string[];
  /** Added to the environment of the test. */
  readonly env?: Readonly<Record<string, string>>;
  /** Folder to run in. Default: that of the test run. */
  readonly cwd?: string;
}

const typescript = new URL('./typescript/register.mjs', import.meta.url).href;

/**
 * Starts `node <script>`; a `.ts` script may import the checkout's sources. Kill it in `afterEach` or `afterAll`: the
 * leak check fails a file that does not.
 *
 * @param script a path, or `new URL('./crashing-owner.ts', import.meta.url)`
 */
export function startChild(script: string | URL, options: ChildOptions = {}): Child {
  const path = script instanceof URL ? fileURLToPath(script) : script;
  const loader = path.endsWith('.ts') ? ['--import', typescript] : [];
  const child = spawn(process.execPath, ['--no-warnings', ...loader, path, ...(options.args ?? [])], {
    // jest's own switches (--experimental-vm-modules) are not for the child.
    env: { ...process.env, NODE_OPTIONS: '', ...options.env },
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  return watched(child, path);
}

function watched(child: ChildProcess, path: string): Child {
  const { pid } = child;
  if (pid === undefined) throw new Error(`node ${path} could not be started`);
  const stdout = new PrintedLines();
  const stderr = new PrintedLines();
  child.stdout?.setEncoding('utf8').on('data', (text: string) => stdout.add(text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => stderr.add(text));
  // A child that is killed while the test writes to it breaks the pipe: its end tells that better.
  child.stdin?.on('error', () => undefined);

  let end: ChildEnd | null = null;
  // 'close' and not 'exit': only then all of the output has arrived.
  const ended = new Promise<ChildEnd>((resolve) => {
    child.on('close', (code, signal) => {
      end = { code, signal };
      closed();
      resolve(end);
    });
  });
  const kill = () => {
    child.kill('SIGKILL');
    return ended;
  };
  const closed = opened({ what: `child ${pid} (${path})`, close: async () => void (await kill()) });

  const failure = (reason: string) =>
    new Error(`child ${pid}: ${reason}\nstdout:\n${stdout.text}\nstderr:\n${stderr.text}`);

  async function line(wanted: string | RegExp, timeoutMs = 10_000): Promise<string> {
    const look = () => {
      // The end is read first: output that came together with it is still found.
      const over = end !== null;
      const found = stdout.next(wanted);
      return found !== null || over ? { found } : undefined;
    };
    const what = `it prints ${wanted}`;
    const seen = await waitUntil(look, { what, timeoutMs }).catch((error: Error) => {
      throw failure(error.message);
    });
    if (seen.found === null) throw failure(`ended (${JSON.stringify(end)}) before ${what}`);
    return seen.found;
  }

  return {
    pid,
    ended,
    get stdout() {
      return stdout.text;
    },
    get stderr() {
      return stderr.text;
    },
    line,
    signal: (name) => void child.kill(name),
    send: (text) => void child.stdin?.write(`${text}\n`),
    kill,
  };
}
