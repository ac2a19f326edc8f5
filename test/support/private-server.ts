import { startTimeOf } from '../../scripts/servers/process-identity.mjs';
import { opened } from './open-resources.js';
import { waitUntil } from './wait-until.js';

/** A server that one test file started for itself, to take it away and give it back. */
export interface PrivateServer {
  /** Where clients find it. Stays the same over restarts. */
  readonly url: string;
  readonly port: number;
  /** Of the process that runs now. */
  readonly pid: number;
  /** SIGTERM: it closes its connections and shuts down in order. Resolves when it is gone. */
  stop(): Promise<void>;
  /** SIGKILL. Resolves when it is gone. */
  kill(): Promise<void>;
  /** Starts it again at the same port, after `stop` or `kill`. Resolves when it answers. */
  start(): Promise<void>;
  /** SIGSTOP: connections stay open and nothing is answered. */
  pause(): void;
  /** SIGCONT, after `pause`. */
  resume(): void;
  /** Ends it, whatever its state, and deletes its data. The leak check fails a file that does not. */
  remove(): Promise<void>;
}

/** What differs from server to server. */
export interface ServerControl {
  readonly name: string;
  readonly url: string;
  readonly port: number;
  readonly firstPid: number;
  /** Starts it again and returns its pid once it answers. */
  readonly restart: () => Promise<number>;
  /** Ends what runs and deletes the data. */
  readonly remove: () => void;
}

/** Puts the signals around a started server and enters it into the ledger. */
export function privateServer(control: ServerControl): PrivateServer {
  const { name, url, port } = control;
  let pid = control.firstPid;
  const gone = () => waitUntil(() => startTimeOf(pid) === null, { what: `${name} ${pid} is gone`, timeoutMs: 60_000 });
  const endBy = async (signal: NodeJS.Signals) => {
    send(pid, signal);
    await gone();
  };
  const remove = async () => {
    control.remove();
    await gone();
    closed();
  };
  const closed = opened({ what: `private ${name} ${pid} at port ${port}`, close: remove });
  return {
    url,
    port,
    get pid() {
      return pid;
    },
    stop: () => endBy('SIGTERM'),
    kill: () => endBy('SIGKILL'),
    async start() {
      if (startTimeOf(pid) !== null)
        throw new Error(`private ${name} ${pid} still runs: stop or kill it before start()`);
      pid = await control.restart();
    },
    pause: () => send(pid, 'SIGSTOP'),
    resume: () => send(pid, 'SIGCONT'),
    remove,
  };
}

function send(pid: number, signal: NodeJS.Signals): void {
  // A pid is used again after its owner died: only a living process of ours is signalled.
  if (startTimeOf(pid) === null) throw new Error(`process ${pid} has already ended: it cannot get ${signal}`);
  process.kill(pid, signal);
}
