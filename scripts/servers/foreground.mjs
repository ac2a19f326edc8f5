// The command that the servers are for, and what signals mean while it runs. The command gets a process group of its own.
// So one Ctrl-C is one SIGINT for it, whoever else passes the signal on: the terminal sends it to the launcher's whole
// group, and npm sends it to the launcher once more.
import { spawn } from 'node:child_process';
import { constants } from 'node:os';
import { killGroup } from './kill-group.mjs';

// A second signal within this time is the first one's echo. Too small: npm's echo kills the command. Too large: an
// impatient second Ctrl-C is not heard.
const echoMs = 700;

// How long a command may take to end after a signal. Too small: an orderly shutdown (25 s at most) is cut off.
// Too large: a command that ignores signals holds the servers for as long.
const graceMs = 40_000;

/**
 * Takes over SIGINT, SIGTERM and SIGHUP of this process. Without a running command the process exits at once, with the
 * usual code of 128 plus the signal's number; exit hooks clean up. With one, the command gets the signal once, and is
 * killed with its group at the second signal or after 40 s. Returns `{ run, exitCode }`.
 */
export function takeForeground() {
  let child = null;
  let signal = null;
  let signalledAt = 0;

  const onSignal = (name) => {
    if (signal === null) {
      signal = name;
      signalledAt = Date.now();
      if (child === null) process.exit(signalCode(name));
      child.kill(name);
      setTimeout(() => child !== null && killGroup(child.pid), graceMs).unref();
    } else if (child !== null && Date.now() - signalledAt > echoMs) {
      killGroup(child.pid);
    }
  };
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => onSignal(name));
  process.on('exit', () => child !== null && killGroup(child.pid));

  /**
   * Runs a command to its end and resolves with its exit code (128 plus the number of the signal that ended it, 127 when
   * it cannot be started). Processes that it leaves in its group are killed. `onStart(pid)` is called once it runs.
   */
  const run = (program, args, { env, cwd, stdio = 'inherit', onStart } = {}) =>
    new Promise((resolve) => {
      const started = spawn(program, args, { detached: true, cwd, stdio, env: { ...process.env, ...env } });
      started.on('error', (error) => {
        child = null;
        process.stderr.write(`cannot run ${program}: ${error.message}\n`);
        resolve(127);
      });
      if (started.pid === undefined) return;
      child = started;
      onStart?.(started.pid);
      started.on('exit', (code, killedBy) => {
        child = null;
        killGroup(started.pid);
        resolve(code ?? signalCode(killedBy));
      });
    });

  /** The exit code of this process after a command that exited with `code`: a signal to this process counts first. */
  const exitCode = (code) => (signal === null ? code : signalCode(signal));

  return { run, exitCode };
}

// The exit code that shells give a process ended by a signal: 130 for SIGINT, 143 for SIGTERM.
function signalCode(name) {
  return 128 + constants.signals[name];
}
