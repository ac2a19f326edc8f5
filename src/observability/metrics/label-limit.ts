/** Keeps the number of series bounded: beyond `most` values of a label, new ones are counted together as `other`. */
export class LabelLimit {
  private readonly known = new Map<string, Set<string>>();

  constructor(private readonly most: number) {}

  apply(labels: Readonly<Record<string, string>>): Record<string, string> {
    return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, this.bounded(name, value)]));
  }

  private bounded(name: string, value: string): string {
    const values = this.known.get(name) ?? new Set();
    this.known.set(name, values);
    if (values.has(value)) return value;
    if (values.size >= this.most) return 'other';
    values.add(value);
    return value;
  }
}
