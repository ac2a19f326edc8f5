// The folder of one private server and its manifest: who started it, and which processes belong to it. Nothing but such a
// folder is ever deleted, and nothing but a process written down in it is ever ended. Everything here is synchronous, so
// that the same steps run in stop(), in the exit hook of a process that dies, and in the sweep of the next start.
import { spawnSync } from 'node:child_process';
import {
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir as systemTmpdir } from 'node:os';
import { join } from 'node:path';
import { killGroup } from './kill-group.mjs';
import { commandLineOf, identify, isSameProcess, thisPlace } from './process-identity.mjs';

const prefix = 'nestjs-mailroom-server-';
const manifestName = 'manifest.json';
const madeBy = 'nestjs-mailroom scripts/servers.mjs';

// How long the end of a process that got SIGKILL is waited for. Too small: its folder is deleted under it and comes back.
// Too large: a process stuck in the kernel keeps the launcher from exiting.
const killWaitMs = 5_000;

const ownFolders = new Set();

/** MariaDB's installer splits its data folder at a blank; no system has one in /tmp. */
function temporaryFolder() {
  return /\s/.test(systemTmpdir()) ? '/tmp' : systemTmpdir();
}

process.on('exit', () => {
  for (const folder of ownFolders) removeFolder(folder);
});

/**
 * Makes the folder of a private server of this process, with its manifest and an empty `data` folder inside.
 * It is removed with everything that runs in it when this process exits, unless {@link removeFolder} did so before.
 */
export function createFolder(kind) {
  const folder = mkdtempSync(join(temporaryFolder(), prefix));
  ownFolders.add(folder);
  writeManifest(folder, {
    madeBy,
    kind,
    createdAt: new Date().toISOString(),
    place: thisPlace(),
    owner: identify(process.pid),
    processes: [],
    compose: null,
  });
  mkdirSync(join(folder, 'data'));
  return folder;
}

/**
 * Writes a process into the folder's manifest, so that it is ended together with the folder. It must lead a process group
 * (be spawned detached). `mark` is a text that its command line holds for all of its life; '' when there is none.
 */
export function recordProcess(folder, pid, mark) {
  const manifest = readManifest(folder);
  if (manifest === null) return;
  writeManifest(folder, { ...manifest, processes: [...manifest.processes, { ...identify(pid), mark }] });
}

/** Writes a compose project ({ project, file }) into the folder's manifest, before it is started. */
export function recordCompose(folder, compose) {
  const manifest = readManifest(folder);
  if (manifest !== null) writeManifest(folder, { ...manifest, compose });
}

/** Ends what the folder's manifest names, waits until it is gone, and deletes the folder. Does nothing the second time. */
export function removeFolder(folder) {
  const manifest = readManifest(folder);
  if (manifest !== null) {
    for (const recorded of manifest.processes) endProcess(recorded);
    // Without the folder nobody would know of the containers any more, so it stays for the next sweep.
    if (manifest.compose !== null && !composeDown(manifest.compose)) return;
    rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
  ownFolders.delete(folder);
}

/**
 * The folders under the system's folder for temporary files whose owner is dead. A folder without a valid manifest, of
 * another user, of another machine or of another pid namespace is not among them: nobody here can tell whether it is in use.
 */
export function abandonedFolders() {
  const place = thisPlace();
  return readdirSync(temporaryFolder())
    .filter((name) => name.startsWith(prefix))
    .map((name) => join(temporaryFolder(), name))
    .filter((folder) => isOurs(folder) && isAbandoned(readManifest(folder), place));
}

function isOurs(folder) {
  try {
    // lstat: a link that somebody put there must not lead the sweep elsewhere.
    const stat = lstatSync(folder);
    return stat.isDirectory() && stat.uid === process.getuid?.();
  } catch {
    return false;
  }
}

function isAbandoned(manifest, place) {
  if (manifest === null) return false;
  const isHere = manifest.place.host === place.host && manifest.place.pidNamespace === place.pidNamespace;
  return isHere && !isSameProcess(manifest.owner);
}

function readManifest(folder) {
  try {
    const manifest = JSON.parse(readFileSync(join(folder, manifestName), 'utf8'));
    const valid =
      manifest.madeBy === madeBy &&
      typeof manifest.place?.host === 'string' &&
      Number.isInteger(manifest.owner?.pid) &&
      Array.isArray(manifest.processes);
    return valid ? manifest : null;
  } catch {
    return null;
  }
}

function writeManifest(folder, manifest) {
  // Renamed into place, so that a crash in the middle leaves the old manifest and not half of the new one.
  const path = join(folder, manifestName);
  writeFileSync(`${path}.part`, `${JSON.stringify(manifest, null, 2)}\n`);
  renameSync(`${path}.part`, path);
}

function endProcess(recorded) {
  if (!isSameProcess(recorded) || !commandLineOf(recorded.pid).includes(recorded.mark)) return;
  // Data that is deleted next needs no orderly shutdown. The group: an initialiser is a script with a server under it.
  killGroup(recorded.pid);
  const deadline = Date.now() + killWaitMs;
  while (isSameProcess(recorded) && Date.now() < deadline) {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 10);
  }
}

function composeDown({ project, file }) {
  const args = ['compose', '-p', project, '-f', file, 'down', '--volumes', '--timeout', '2'];
  return spawnSync('docker', args, { stdio: 'ignore', timeout: 60_000 }).status === 0;
}
