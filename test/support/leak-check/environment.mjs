// The environment of every test file. After the last `afterAll` of the file it looks for what was left open: databases,
// servers and children entered in the ledger (../open-resources.ts), connections on the database server, sockets and
// timers. Anything left fails the file. It is an environment because hooks of a set-up file run before those of the file.
import { setTimeout as delay } from 'node:timers/promises';
import { TestEnvironment } from 'jest-environment-node';
import { openConnections } from './connections.mjs';
import { trackHandles } from './handles.mjs';
import { trackTimers } from './timers.mjs';

// Closing takes the event loop and the server a moment. Too small: a loaded machine shows leaks that are none.
// Too large: each file with a leak takes that much longer.
const settleMs = 3_000;
const pollMs = 25;
const ledgerKey = Symbol.for('mailroom.test.ledger');

export default class LeakCheckEnvironment extends TestEnvironment {
  #checkout;
  #ledger = { open: new Set(), databases: [] };
  #timers;
  #handles;

  constructor(config, context) {
    super(config, context);
    this.#checkout = config.projectConfig.rootDir;
  }

  async setup() {
    await super.setup();
    this.global[ledgerKey] = this.#ledger;
    this.#timers = trackTimers(this.global, this.#checkout);
    this.#handles = trackHandles();
  }

  async handleTestEvent(event, state) {
    if (event.name !== 'run_finish') return;
    // Errors are handed over and not thrown: a throw here would hide the results of the tests.
    const report = (error) => state.unhandledErrors.push(error);
    try {
      const leaks = await this.#leaksAfterSettling();
      if (leaks.length > 0) report(leakError(leaks));
    } catch (error) {
      report(error);
    }
    await this.#endEverything(report);
  }

  async #leaksAfterSettling() {
    const deadline = Date.now() + settleMs;
    for (;;) {
      const local = this.#local();
      // The server is asked once the rest is quiet, because asking it opens a socket here, or when time is up.
      const late = Date.now() > deadline;
      const leaks = local.length === 0 || late ? [...local, ...(await openConnections(this.#ledger.databases))] : local;
      if (leaks.length === 0 || late) return leaks;
      await delay(pollMs);
    }
  }

  #local() {
    const timers = this.#timers.list();
    // A timer that is known by its place need not be listed once more by its kind.
    const handles = this.#handles.list().filter((line) => timers.length === 0 || !line.endsWith(' Timeout'));
    return [...[...this.#ledger.open].map(({ what }) => what), ...timers, ...handles];
  }

  /** A leak fails its file only: it must neither disturb the next file nor keep the run from ending. */
  async #endEverything(report) {
    for (const resource of this.#ledger.open) await resource.close().catch(report);
    this.#timers.end();
    this.#handles.end();
  }
}

function leakError(leaks) {
  const error = new Error(`this test file left open:\n  ${leaks.join('\n  ')}`);
  // The place where the check stands says nothing.
  error.stack = '';
  return error;
}
