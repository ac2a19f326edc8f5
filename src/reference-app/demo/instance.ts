import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const application = fileURLToPath(new URL('../main.js', import.meta.url));
/** A start takes a few seconds on a slow machine; one that takes this long has failed. */
const startTimeoutMs = 60_000;
/** After it an instance that does not stop by itself is killed. */
const stopTimeoutMs = 20_000;

/** One running instance of the application, as a process of its own. */
export class Instance {
  /** Resolves when the process is gone. */
  readonly ended: Promise<void>;
  private readonly lastLines: string[] = [];

  private constructor(
    private readonly child: ChildProcess,
    readonly name: string,
  ) {
    this.ended = new Promise((resolve) => child.once('exit', () => resolve()));
  }

  url = '';

  /** Resolves when it listens. @throws Error with its last log lines when it does not */
  static async start(name: string, environment: Readonly<Record<string, string>>): Promise<Instance> {
    const child = spawn(process.execPath, [application], {
      env: { ...process.env, ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      // Ctrl-C in a terminal goes to the whole group: the demo decides itself when its instances stop.
      detached: true,
    });
    const instance = new Instance(child, name);
    await instance.listening();
    return instance;
  }

  get pid(): number | undefined {
    return this.child.pid;
  }

  /** Ends it as a crash would; resolves when it is gone. */
  async kill(): Promise<void> {
    this.child.kill('SIGKILL');
    await this.ended;
  }

  /** Stops it as a deployment would, and kills it if that takes too long. */
  async stop(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    this.child.kill('SIGTERM');
    const timer = setTimeout(() => this.child.kill('SIGKILL'), stopTimeoutMs);
    await this.ended;
    clearTimeout(timer);
  }

  private async listening(): Promise<void> {
    const { stdout, stderr } = this.child;
    if (!stdout || !stderr) throw new Error('the instance has no output');
    let timer: NodeJS.Timeout | undefined;
    try {
      await new Promise<void>((resolve, reject) => {
        const fail = (why: string) => reject(new Error(`instance ${this.name} ${why}\n${this.lastLines.join('\n')}`));
        timer = setTimeout(() => fail(`did not listen within ${startTimeoutMs} ms`), startTimeoutMs);
        for (const stream of [stdout, stderr]) {
          createInterface({ input: stream }).on('line', (line) => {
            this.lastLines.push(line);
            if (this.lastLines.length > 10) this.lastLines.shift();
            const url = urlOf(line);
            if (url === null) return;
            this.url = url;
            resolve();
          });
        }
        void this.ended.then(() => fail('ended while it started'));
      });
    } catch (error) {
      await this.kill();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }
}

function urlOf(line: string): string | null {
  if (!line.includes('"listening"')) return null;
  try {
    const { url } = JSON.parse(line) as { url?: unknown };
    return typeof url === 'string' ? url : null;
  } catch {
    return null;
  }
}
