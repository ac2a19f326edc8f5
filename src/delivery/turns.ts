/** Lets work of one name run one after the other in this process, in the order in which it came. */
export class Turns {
  private readonly last = new Map<string, Promise<void>>();

  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.last.get(name);
    let done: () => void = () => undefined;
    const mine = new Promise<void>((resolve) => {
      done = resolve;
    });
    this.last.set(name, mine);
    try {
      await before;
      return await work();
    } finally {
      done();
      if (this.last.get(name) === mine) this.last.delete(name);
    }
  }
}
