/** An order unit with more waiting messages in the queue than one step moves out of it. */
export interface Crowd {
  readonly open: string;
  /** Its messages from this one on wait for another one. */
  readonly from: string;
}

/** A condition over alias `m` that holds for messages of none of the crowds; empty when there are none. */
export function exceptCrowds(
  { open, id }: { readonly open: string; readonly id: string },
  crowds: readonly Crowd[],
): { readonly sql: string; readonly values: readonly string[] } {
  return {
    sql: crowds.map(() => `AND NOT (m.${open} <=> ? AND m.${id} >= ?)`).join(' '),
    values: crowds.flatMap((crowd) => [crowd.open, crowd.from]),
  };
}
