/** For tests of applications that use mailroom: published at nestjs-mailroom/testing. */
export { drainInbox } from './drain.js';
