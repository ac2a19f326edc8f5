import { Instance } from './instance.js';

/** Keeps one instance running under each name, as a process manager does: one that ends is started again. */
export class Supervisor {
  private readonly running = new Map<string, Instance>();
  private readonly watches: Promise<void>[] = [];
  private stopping = false;
  private unexpected: string[] = [];
  /** Instances that ended without being told to stop. */
  ended = 0;

  constructor(
    private readonly names: readonly string[],
    private readonly environment: Readonly<Record<string, string>>,
    private readonly say: (line: string) => void,
  ) {}

  /** Those that listen. */
  get alive(): readonly Instance[] {
    return [...this.running.values()];
  }

  /** True while every name has an instance that listens. */
  get isComplete(): boolean {
    return this.running.size === this.names.length;
  }

  /** Starts that failed after the first ones, in words. */
  get problems(): readonly string[] {
    return this.unexpected;
  }

  /** Resolves when all listen. @throws Error with the last log lines of the one that does not */
  async start(): Promise<void> {
    const starts = this.names.map((name) => this.launch(name));
    // One that is still starting when another fails must be known to stop() too.
    this.watches.push(...starts.map((start) => start.then((instance) => this.watch(instance)).catch(() => undefined)));
    await Promise.all(starts);
  }

  /** Stops all of them in order, also those that are just starting. */
  async stop(): Promise<void> {
    this.stopping = true;
    await Promise.all(this.alive.map((instance) => instance.stop()));
    await Promise.all(this.watches);
  }

  private async launch(name: string): Promise<Instance> {
    const instance = await Instance.start(name, this.environment);
    this.running.set(name, instance);
    if (this.stopping) await instance.stop();
    return instance;
  }

  private async watch(first: Instance): Promise<void> {
    let instance = first;
    for (;;) {
      await instance.ended;
      this.running.delete(instance.name);
      if (this.stopping) return;
      this.ended++;
      this.say(`instance ${instance.name} has ended and is started again`);
      try {
        instance = await this.launch(instance.name);
      } catch (error) {
        this.unexpected.push(error instanceof Error ? error.message : String(error));
        return;
      }
    }
  }
}
