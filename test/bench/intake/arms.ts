/** One way of taking a push in, see push-server.ts. */
export interface Arm {
  readonly name: string;
  /** As it is called in the tables. */
  readonly title: string;
  readonly path: string;
  /** Where its rows are; null: it stores nothing. */
  readonly table: string | null;
  readonly duplicateShare: number;
}

const ours = { path: '/webhooks/orders', table: 'inbox_message' };

export const empty: Arm = { name: 'empty', title: 'a  stores nothing', path: '/empty', table: null, duplicateShare: 0 };
export const save: Arm = {
  name: 'save',
  title: 'b  repository.save()',
  path: '/save',
  table: 'saved_push',
  duplicateShare: 0,
};
export const insert: Arm = {
  name: 'insert',
  title: 'c  one INSERT each, pool',
  path: '/insert',
  table: 'inserted_push',
  duplicateShare: 0,
};
export const intake: Arm = { ...ours, name: 'intake', title: 'd  intake', duplicateShare: 0 };
export const repushed: Arm = { ...ours, name: 'repushed', title: 'd  intake, 20 % re-pushed', duplicateShare: 0.2 };
