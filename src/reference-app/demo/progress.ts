const width = 30;

/** A bar on a terminal, a line per tenth elsewhere. It writes to stderr, so that a report on stdout stays clean. */
export class Progress {
  private done = 0;
  private tenth = 0;

  constructor(
    private readonly label: string,
    private readonly total: number,
    private readonly output: NodeJS.WriteStream = process.stderr,
  ) {}

  to(done: number): void {
    this.done = Math.min(done, this.total);
    const share = this.total === 0 ? 1 : this.done / this.total;
    if (this.output.isTTY) {
      const filled = Math.round(share * width);
      this.output.write(
        `\r  ${this.label} [${'#'.repeat(filled)}${'.'.repeat(width - filled)}] ${this.done}/${this.total}`,
      );
      if (this.done === this.total) this.output.write('\n');
    } else if (Math.floor(share * 10) > this.tenth) {
      this.tenth = Math.floor(share * 10);
      this.output.write(`  ${this.label} ${this.done}/${this.total}\n`);
    }
  }

  step = (): void => this.to(this.done + 1);
}
