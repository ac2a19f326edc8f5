// A process of a private server: detached, so that a Ctrl-C in the terminal does not reach it before the work is done, and
// written into the folder's manifest at once, so that it is found again after a crash of the launcher.
import { spawn } from 'node:child_process';
import { closeSync, fstatSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { recordProcess } from './private-folder.mjs';

// Too small: a start on a busy machine is taken for a failure. Too large: a hanging server is reported late.
const startDeadlineMs = 120_000;
const pollMs = 20;

/**
 * Starts a program in a private folder, its output at the end of `<folder>/<logName>`. Returns
 * `{ pid, log(), exited, ended() }`: `log()` is its own output so far, `exited` is a promise of how it ended, `ended()`
 * tells whether it did.
 */
export async function startProcess({ folder, program, args, env, logName, mark }) {
  const logPath = join(folder, logName);
  const logFile = openSync(logPath, 'a');
  const logStart = fstatSync(logFile).size;
  const options = { cwd: folder, detached: true, stdio: ['ignore', logFile, logFile] };
  const child = spawn(program, args, { ...options, env: { ...process.env, ...env } });
  if (child.pid !== undefined) recordProcess(folder, child.pid, mark);
  closeSync(logFile);
  let ended = false;
  const exited = new Promise((resolve) => {
    const end = (how) => {
      ended = true;
      resolve(how);
    };
    child.on('error', (error) => end(error.message));
    child.on('exit', (code, signal) => end(signal ?? code));
  });
  // A server must not keep the launcher alive: the launcher ends it.
  child.unref();
  return { pid: child.pid, log: () => readFileSync(logPath).toString('utf8', logStart), exited, ended: () => ended };
}

/** Waits until a process ends by itself. Throws with the end of its log when it fails or takes longer than `limitMs`. */
export async function finished(name, server, limitMs = startDeadlineMs) {
  const deadline = new AbortController();
  const late = delay(limitMs, `not done after ${limitMs} ms`, { signal: deadline.signal });
  const how = await Promise.race([server.exited, late]);
  deadline.abort();
  if (how !== 0) throw new Error(failure(name, how, server.log()));
}

/**
 * Asks `isReady()` again and again until it is true. `isReady` may throw for a reason of its own. Throws with the end of
 * the server's log when the server ends first or the deadline of two minutes passes.
 */
export async function ready(name, server, isReady) {
  const deadline = Date.now() + startDeadlineMs;
  for (;;) {
    // Read first: a server that ends while isReady() looks elsewhere gets one more look, which finds the reason.
    const ended = server.ended();
    if (await isReady()) return;
    if (ended) throw new Error(failure(name, await server.exited, server.log()));
    if (Date.now() > deadline) throw new Error(failure(name, `not ready after ${startDeadlineMs} ms`, server.log()));
    await delay(pollMs);
  }
}

function failure(name, how, log) {
  const tail = log.trimEnd().split('\n').slice(-12);
  return [`the private ${name} did not start (${how}). The end of its log:`, ...tail].join('\n  ');
}
