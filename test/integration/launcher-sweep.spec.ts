// The sweep of the launcher (scripts/servers/sweep.mjs): what a killed launcher left is ended and deleted by the next start,
// and nothing else ever is. On real processes, with Redis, the quickest server to start.
import { type ChildProcess, spawn } from 'node:child_process';
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { LauncherFixture, serving } from '../support/launcher/launcher-fixture.js';
import { answers, isRunning, type RecordedProcess, serverFolders } from '../support/launcher/launcher-run.js';

interface Manifest {
  place: { host: string; pidNamespace: string };
  owner: { pid: number; startedAt: string };
  processes: RecordedProcess[];
}

const scripts = new URL('../../scripts/', import.meta.url).href;

let launchers: LauncherFixture;

beforeEach(() => {
  launchers = new LauncherFixture();
});

afterEach(() => launchers.close());

/** The folder of a launcher that was killed together with its server, its manifest changed before the sweep comes. */
async function abandonedFolder(change: (manifest: Manifest) => void = () => {}): Promise<string> {
  const killed = launchers.run(['--only', 'redis'], serving);
  const { pids } = await launchers.serves(killed);
  await launchers.crash(killed);
  for (const pid of pids) process.kill(pid, 'SIGKILL');
  const [folder = ''] = serverFolders(launchers.temporary);
  const path = join(folder, 'manifest.json');
  const manifest: Manifest = JSON.parse(readFileSync(path, 'utf8'));
  change(manifest);
  writeFileSync(path, JSON.stringify(manifest));
  return folder;
}

it('ends at the next start what a killed launcher left: servers, command, folders', async () => {
  const killed = launchers.run([], serving);
  const { database, redis, pids } = await launchers.serves(killed);
  await launchers.crash(killed);
  expect(await answers(database)).toBe(true);

  const next = launchers.run(['--only', 'redis'], '');

  expect(await next.exited).toBe(0);
  expect(next.output()).toContain('servers: cleaned up 2 folders of killed runs');
  await launchers.expectNothingLeft(pids, [database, redis]);
});

it('does not touch what belongs to a launcher that lives', async () => {
  const { redis } = await launchers.serves(launchers.run(['--only', 'redis'], serving));

  await launchers.sweep();

  expect(serverFolders(launchers.temporary)).toHaveLength(1);
  expect(await answers(redis)).toBe(true);
});

it('leaves alone a folder with its prefix but without a manifest', async () => {
  const folder = join(launchers.temporary, 'nestjs-mailroom-server-foreign');
  mkdirSync(folder);

  await launchers.sweep();

  expect(existsSync(folder)).toBe(true);
});

it('leaves alone a folder whose manifest somebody else wrote', async () => {
  const folder = await abandonedFolder((manifest) => Object.assign(manifest, { madeBy: 'somebody else' }));

  await launchers.sweep();

  expect(existsSync(folder)).toBe(true);
});

it.each([
  ['another machine', { host: 'elsewhere' }],
  ['another pid namespace', { pidNamespace: 'pid:[1]' }],
])('leaves alone the folder of a launcher on %s, whose processes it cannot see', async (_place, change) => {
  const folder = await abandonedFolder((manifest) => Object.assign(manifest.place, change));

  await launchers.sweep();

  expect(existsSync(folder)).toBe(true);
});

it('does not follow a link with its prefix', async () => {
  const elsewhere = join(launchers.temporary, 'elsewhere');
  mkdirSync(elsewhere);
  const folder = await abandonedFolder();
  const moved = join(elsewhere, basename(folder));
  renameSync(folder, moved);
  symlinkSync(moved, folder);

  await launchers.sweep();

  expect(lstatSync(folder).isSymbolicLink()).toBe(true);
  expect(existsSync(moved)).toBe(true);
});

it('leaves alone the folder of another user, who could have written anything into the manifest', async () => {
  // Only root can make such a folder.
  if (process.getuid?.() !== 0) return;
  const folder = await abandonedFolder();
  chownSync(folder, 1, 1);

  await launchers.sweep();

  expect(existsSync(folder)).toBe(true);
});

describe('when a pid of the manifest was given to another process', () => {
  let stranger: ChildProcess;
  let strangerExited: Promise<unknown>;

  beforeEach(() => {
    stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' });
    strangerExited = new Promise((resolve) => stranger.on('exit', resolve));
  });

  afterEach(async () => {
    stranger.kill('SIGKILL');
    await strangerExited;
  });

  it('takes the launcher for dead, deletes its folder, and does not end that process', async () => {
    const folder = await abandonedFolder((manifest) => {
      const earlier = { pid: stranger.pid ?? 0, startedAt: '1@an-earlier-boot' };
      manifest.owner = earlier;
      manifest.processes = [{ ...earlier, mark: '' }];
    });

    await launchers.sweep();

    expect(existsSync(folder)).toBe(false);
    expect(isRunning(stranger.pid ?? 0)).toBe(true);
  });

  it('does not end it when only its command line tells the difference', async () => {
    const folder = await abandonedFolder();
    const recording = launchers.runModule(`
      import { recordProcess } from '${scripts}servers/private-folder.mjs';
      recordProcess('${folder}', ${stranger.pid}, 'mariadbd');`);
    expect(await recording.exited).toBe(0);

    await launchers.sweep();

    expect(existsSync(folder)).toBe(false);
    expect(isRunning(stranger.pid ?? 0)).toBe(true);
  });
});
