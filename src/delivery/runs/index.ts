/** What people do to messages, with a record: chosen, written down, moved in small transactions, counted. */

export { inboxNeeds } from '../inbox-needs.js';
export { type InboxTableOption, tableOf, tableOption } from '../table-option.js';
export { archiveMessages } from './archive.store.js';
export type { Preview } from './preview.store.js';
export type { ItemOutcome, Run, RunAction, RunRequest, RunState, RunStep } from './run.js';
export { mostSelected, RunStore } from './run.store.js';
export { inboxRunBox, inboxRunBoxOf, outboxRunBox, type RunBox } from './run-box.js';
export { type RunWorkerOptions, runClaimMs, workRun } from './run-worker.js';
export { type Condition, conditionOf, type Selection } from './selection.js';
