// Who a process is. A pid alone is no identity: it is used again after its owner died. A pid and its start time are one,
// within one machine and one pid namespace (the place).
import { spawnSync } from 'node:child_process';
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** Where pids of this process mean something. `pidNamespace` is '' on systems without such (macOS). */
export function thisPlace() {
  return { host: hostname(), pidNamespace: orEmpty(() => readlinkSync('/proc/self/ns/pid')) };
}

/**
 * The start time of a running process as an opaque text that is equal for the same process only, or `null` when there is no
 * such process or only its zombie is left. Clock ticks since a named boot on Linux, a date in whole seconds elsewhere.
 */
export function startTimeOf(pid) {
  const stat = orEmpty(() => readFileSync(`/proc/${pid}/stat`, 'utf8'));
  if (stat !== '') {
    // The second field is the program's name in parentheses and may hold spaces and parentheses itself.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? null : `${fields[19]}@${bootId()}`;
  }
  if (hasProc()) return null;
  const [state = '', ...started] = ps(pid, 'state=,lstart=').split(/\s+/);
  return state === '' || state.startsWith('Z') ? null : started.join(' ');
}

/** The command line of a running process, its words separated by spaces; '' when there is no such process. */
export function commandLineOf(pid) {
  if (!hasProc()) return ps(pid, 'command=');
  return orEmpty(() => readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim());
}

/** Whether `identity` ({ pid, startedAt }) is still the process that it was when it was written down. */
export function isSameProcess(identity) {
  return identity.startedAt !== null && startTimeOf(identity.pid) === identity.startedAt;
}

/** The identity ({ pid, startedAt }) of a process that runs now; `startedAt` is null when it has ended already. */
export function identify(pid) {
  return { pid, startedAt: startTimeOf(pid) };
}

function bootId() {
  return orEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim());
}

function hasProc() {
  return orEmpty(() => readFileSync('/proc/self/stat', 'utf8')) !== '';
}

function ps(pid, columns) {
  const env = { ...process.env, LC_ALL: 'C', TZ: 'UTC' };
  return (spawnSync('ps', ['-o', columns, '-p', String(pid)], { encoding: 'utf8', env }).stdout ?? '').trim();
}

function orEmpty(read) {
  try {
    return read();
  } catch {
    return '';
  }
}
