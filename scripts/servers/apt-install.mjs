// Installs servers from the distribution's packages, for a bare machine or container of Debian or Ubuntu. Only the programs
// are wanted: the services that the packages would start are held back, and the servers are started privately afterwards.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { findProgram } from './installed-program.mjs';
import { startTimeOf } from './process-identity.mjs';

const policyPath = '/usr/sbin/policy-rc.d';
const policyMark = '# written by nestjs-mailroom scripts/servers.mjs';

/** Whether this is Debian, Ubuntu or a relative, with apt-get, and this process is root. */
export function canAptInstall() {
  return (
    process.getuid?.() === 0 && findProgram(['apt-get']) !== null && /^ID(_LIKE)?=.*(debian|ubuntu)/m.test(osRelease())
  );
}

/**
 * Installs packages without a question and without starting their services. Synchronous on purpose: a signal is taken up
 * when apt-get is done, because a package manager must not be left half-way. Throws with the end of apt-get's output.
 */
export function aptInstall(packages) {
  const held = holdServices();
  try {
    apt(['update', '-qq']);
    apt(['install', '-y', '-qq', '--no-install-recommends', ...packages]);
  } finally {
    if (held) rmSync(policyPath, { force: true });
  }
}

/** Deletes the file that {@link aptInstall} holds services back with, when the process that wrote it was killed. */
export function sweepServicePolicy() {
  const text = read(policyPath);
  if (!text.includes(policyMark)) return;
  const [, pid, startedAt] = /^# by process (\d+) started at (.*)$/m.exec(text) ?? [];
  if (pid !== undefined && startTimeOf(Number(pid)) !== startedAt) rmSync(policyPath, { force: true });
}

function holdServices() {
  // Containers often bring a policy of their own: then nothing is started anyway, and it is theirs to keep.
  const script = [
    '#!/bin/sh',
    policyMark,
    `# by process ${process.pid} started at ${startTimeOf(process.pid)}`,
    // Left behind by a crash it must do no harm: without its process it allows everything.
    `kill -0 ${process.pid} 2>/dev/null && exit 101`,
    'exit 0',
    '',
  ];
  try {
    writeFileSync(policyPath, script.join('\n'), { flag: 'wx', mode: 0o755 });
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  }
}

function apt(args) {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive', NEEDRESTART_SUSPEND: '1' };
  const { status, stdout, stderr } = spawnSync('apt-get', args, {
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  if (status === 0) return;
  const tail = `${stdout}${stderr}`.trimEnd().split('\n').slice(-8);
  throw new Error([`apt-get ${args.join(' ')} failed (${status}). The end of its output:`, ...tail].join('\n  '));
}

function osRelease() {
  return read('/etc/os-release');
}

function read(path) {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
