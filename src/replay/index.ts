/**
 * What people do at night: see what failed, fix the cause, run exactly those again, slowly, and say next week who did
 * what.
 *
 *   service     preview, start, discard, edit, get, list, items, cancel, resume; messages and one message
 *   runner      works runs off, one at a time in each process; another instance goes on when one ends
 *   controller  the same over HTTP, behind a guard of the application, described for @nestjs/swagger where that is installed
 *   cli         the same from a shell
 *
 * States of a run: pending -> running -> done | cancelled; cancelled -> pending by resume. The ids are written down when it
 * starts. Each message is archived, moved, counted and noted in one transaction that checks the run's token, so that no
 * run moves a message twice. A replay never passes the door: no signature and no dedup key is looked at again.
 */
export type { Preview } from '../delivery/runs/index.js';
export type { MessageLine, MessageView } from './message-view.js';
export { type ReplayAsyncOptions, ReplayModule } from './replay.module.js';
export {
  type Edited,
  type EditRequest,
  type ReplayRequest,
  type ReplaySelection,
  ReplayService,
  type RunItem,
} from './replay.service.js';
export type { ReplayHttpOptions, ReplayOptions } from './replay-options.js';
