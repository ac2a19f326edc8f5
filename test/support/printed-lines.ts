/** What a process has printed, and its complete lines, each given out once and in order. */
export class PrintedLines {
  #text = '';
  #givenOut = 0;

  get text(): string {
    return this.#text;
  }

  add(text: string): void {
    this.#text += text;
  }

  /** The next complete line that holds `wanted` or matches it, without its line end, or `null`. Those before are skipped. */
  next(wanted: string | RegExp): string | null {
    let start = this.#givenOut;
    for (;;) {
      const end = this.#text.indexOf('\n', start);
      if (end === -1) return null;
      const line = this.#text.slice(start, end);
      start = end + 1;
      if (typeof wanted === 'string' ? !line.includes(wanted) : !wanted.test(line)) continue;
      this.#givenOut = start;
      return line;
    }
  }
}
