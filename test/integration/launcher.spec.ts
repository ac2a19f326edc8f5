// The launcher (scripts/servers.mjs) that finds or starts the servers of the demo and the tests. On real processes: each
// test gives the launcher a folder for temporary files of its own, so that what is left there is the launcher's. Most start
// Redis alone, which is the quickest server to start.
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  answers,
  isRunning,
  type LauncherRun,
  launch,
  recordedProcesses,
  serverFolders,
  start,
  until,
} from '../support/launcher/launcher-run.js';

const waiting = `console.log('serving', process.env.DATABASE_URL, process.env.REDIS_URL, '.'); setInterval(() => {}, 1000);`;
const serving = /serving (\S+) (\S+) \./;
const scripts = new URL('../../scripts/', import.meta.url).href;

let temporary: string;
const runs: LauncherRun[] = [];

beforeEach(() => {
  temporary = mkdtempSync(join(tmpdir(), 'launcher-spec-'));
});

afterEach(async () => {
  // A red test must not leave servers on the machine, nor a command that outlived its launcher.
  const ended = runs.splice(0);
  for (const { child } of ended) child.kill('SIGTERM');
  await until('the end of the launchers', () => ended.every(({ child }) => !isRunning(child.pid ?? 0)));
  await launch(temporary, ['sweep']).exited;
  await Promise.all(ended.map(({ exited }) => exited));
  rmSync(temporary, { recursive: true });
});

function run(args: readonly string[], env?: NodeJS.ProcessEnv): LauncherRun {
  const started = launch(temporary, ['run', ...args], env);
  runs.push(started);
  return started;
}

function nodeCommand(script: string): readonly string[] {
  return ['--', process.execPath, '-e', script];
}

async function urlsOf(launcher: LauncherRun): Promise<{ database: string; redis: string }> {
  const [, database = '', redis = ''] = await launcher.prints(serving);
  return { database, redis };
}

async function expectNothingLeft(pids: readonly number[], urls: readonly string[]): Promise<void> {
  expect(readdirSync(temporary)).toEqual([]);
  expect(pids.filter(isRunning)).toEqual([]);
  for (const url of urls) expect(await answers(url)).toBe(false);
}

function pidsNow(): readonly number[] {
  return recordedProcesses(temporary).map(({ pid }) => pid);
}

it('runs a command with private servers, says so in one line, and leaves nothing behind', async () => {
  const launcher = run(nodeCommand(`${waiting} process.on('SIGUSR2', () => process.exit(7));`));
  const urls = await urlsOf(launcher);
  expect(urls.database).toMatch(/^mysql:\/\/root@127\.0\.0\.1:\d+\/$/);
  expect(urls.redis).toMatch(/^redis:\/\/127\.0\.0\.1:\d+$/);
  expect(await answers(urls.database)).toBe(true);
  expect(await answers(urls.redis)).toBe(true);
  expect(launcher.output().split('serving')[0]).toMatch(
    /^servers: .+ on 127.+ and redis .+ on 127.+, private, started.+\n$/,
  );

  const pids = pidsNow();
  // The last one written down is the command itself, in the folder of each server.
  process.kill(pids.at(-1) ?? 0, 'SIGUSR2');
  expect(await launcher.exited).toBe(7);
  await expectNothingLeft(pids, [urls.database, urls.redis]);
});

it('works twice at the same time: each launcher has servers of its own', async () => {
  const launchers = [
    run(['--only', 'redis', ...nodeCommand(waiting)]),
    run(['--only', 'redis', ...nodeCommand(waiting)]),
  ];
  const [first, second] = await Promise.all(launchers.map(urlsOf));
  expect(first?.redis).not.toBe(second?.redis);

  launchers[0]?.child.kill('SIGTERM');
  await launchers[0]?.exited;
  expect(await answers(first?.redis ?? '')).toBe(false);
  expect(await answers(second?.redis ?? '')).toBe(true);
  expect(serverFolders(temporary)).toHaveLength(1);
});

it('sweeps nothing of a launcher that lives', async () => {
  const launcher = run(['--only', 'redis', ...nodeCommand(waiting)]);
  const { redis } = await urlsOf(launcher);

  expect(await launch(temporary, ['sweep']).exited).toBe(0);

  expect(serverFolders(temporary)).toHaveLength(1);
  expect(await answers(redis)).toBe(true);
});

it.each(['SIGINT', 'SIGTERM'] as const)(
  'passes %s to the command once, keeps the servers until it has ended, and leaves nothing behind',
  async (signal) => {
    const countSignals = `let seen = 0; process.on('${signal}', () => { seen += 1; setTimeout(() => {
      const { port } = new URL(process.env.REDIS_URL);
      require('node:net').connect(port, '127.0.0.1', () => { console.log('signals', seen, 'served'); process.exit(3); });
    }, 200); });`;
    const launcher = run(nodeCommand(countSignals + waiting));
    const urls = await urlsOf(launcher);
    const pids = pidsNow();

    // Twice, as npm does it: the terminal signals the group, and npm passes it on.
    launcher.child.kill(signal);
    launcher.child.kill(signal);

    expect(await launcher.exited).toBe(3);
    expect(launcher.output()).toContain('signals 1 served');
    await expectNothingLeft(pids, [urls.database, urls.redis]);
  },
);

it('ends a command that ignores SIGINT when SIGINT comes again, and leaves nothing behind', async () => {
  const launcher = run(['--only', 'redis', ...nodeCommand(`process.on('SIGINT', () => {}); ${waiting}`)]);
  const { redis } = await urlsOf(launcher);
  const pids = pidsNow();

  const impatience = setInterval(() => launcher.child.kill('SIGINT'), 100);
  expect(await launcher.exited).toBe(137);
  clearInterval(impatience);

  await expectNothingLeft(pids, [redis]);
});

it('leaves nothing behind when a signal comes while the servers are started', async () => {
  const launcher = run(nodeCommand(waiting));
  const pids = await until('a process in a manifest', () => (pidsNow().length > 0 ? pidsNow() : null));

  launcher.child.kill('SIGTERM');

  expect(await launcher.exited).toBe(143);
  await expectNothingLeft(pids, []);
});

it('leaves nothing behind when the process that started the servers ends by an uncaught error', async () => {
  const script = `import { startServers } from '${scripts}servers.mjs';
    const { redisUrl } = await startServers({ database: 'none' });
    console.log('serving', null, redisUrl, '.');
    setTimeout(() => { throw new Error('a bug'); }, 10);`;
  const process_ = start(temporary, ['--input-type=module', '-e', script]);
  const { redis } = await urlsOf(process_);

  expect(await process_.exited).toBe(1);

  await expectNothingLeft([], [redis]);
});

it('ends at its next start what a killed launcher left: servers, command, folders', async () => {
  const killed = run(nodeCommand(waiting));
  const urls = await urlsOf(killed);
  const pids = pidsNow();
  killed.child.kill('SIGKILL');
  await until('the end of the launcher', () => !isRunning(killed.child.pid ?? 0));
  expect(await answers(urls.database)).toBe(true);

  const next = run(['--only', 'redis', ...nodeCommand('')]);

  expect(await next.exited).toBe(0);
  expect(next.output()).toContain('servers: cleaned up 2 folders of killed runs');
  await expectNothingLeft(pids, [urls.database, urls.redis]);
});

describe('of folders with its prefix', () => {
  let stranger: ChildProcess;

  beforeEach(() => {
    stranger = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { detached: true, stdio: 'ignore' });
  });

  afterEach(async () => {
    const exited = new Promise((resolve) => stranger.on('exit', resolve));
    stranger.kill('SIGKILL');
    await exited;
  });

  interface Manifest {
    place: { host: string; pidNamespace: string };
    owner: { pid: number; startedAt: string };
    processes: { pid: number | undefined; startedAt: string; mark: string }[];
  }

  /** The folder of a launcher that was killed, whose manifest is changed before the sweep comes. */
  async function abandonedFolder(change: (manifest: Manifest) => void): Promise<string> {
    const killed = run(['--only', 'redis', ...nodeCommand(waiting)]);
    await killed.prints(serving);
    const pids = pidsNow();
    killed.child.kill('SIGKILL');
    await until('the end of the launcher', () => !isRunning(killed.child.pid ?? 0));
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    const [folder = ''] = serverFolders(temporary);
    const path = join(folder, 'manifest.json');
    const manifest: Manifest = JSON.parse(readFileSync(path, 'utf8'));
    change(manifest);
    writeFileSync(path, JSON.stringify(manifest));
    return folder;
  }

  it('the sweep leaves alone one without a valid manifest', async () => {
    const folder = join(temporary, 'nestjs-mailroom-server-foreign');
    mkdirSync(folder);
    expect(await launch(temporary, ['sweep']).exited).toBe(0);
    writeFileSync(join(folder, 'manifest.json'), '{ "madeBy": "somebody else", "processes": [] }');
    expect(await launch(temporary, ['sweep']).exited).toBe(0);
    expect(existsSync(join(folder, 'manifest.json'))).toBe(true);
  });

  it('the sweep leaves alone one of another machine or of another pid namespace', async () => {
    for (const change of [{ host: 'elsewhere' }, { pidNamespace: 'pid:[1]' }]) {
      const folder = await abandonedFolder((manifest) => Object.assign(manifest.place, change));
      expect(await launch(temporary, ['sweep']).exited).toBe(0);
      expect(existsSync(folder)).toBe(true);
      rmSync(folder, { recursive: true });
    }
  });

  it('the sweep deletes one whose pids were given to other processes, and does not touch these', async () => {
    const folder = await abandonedFolder((manifest) => {
      const earlier = '1';
      manifest.owner = { pid: stranger.pid ?? 0, startedAt: earlier };
      manifest.processes = [{ pid: stranger.pid, startedAt: earlier, mark: '' }];
    });

    expect(await launch(temporary, ['sweep']).exited).toBe(0);

    expect(existsSync(folder)).toBe(false);
    expect(isRunning(stranger.pid ?? 0)).toBe(true);
  });
});

describe('with servers of the user', () => {
  it('uses DATABASE_URL and REDIS_URL as they are and never touches these servers', async () => {
    const theirs = run(nodeCommand(waiting));
    const { database, redis } = await urlsOf(theirs);
    const before = serverFolders(temporary);

    const given = run(nodeCommand(waiting), { DATABASE_URL: database, REDIS_URL: redis });

    expect(await urlsOf(given)).toEqual({ database, redis });
    expect(given.output()).toMatch(/^servers: .+ \(DATABASE_URL\) and .+ \(REDIS_URL\), left as they are\n/);
    expect(serverFolders(temporary)).toEqual(before);
    given.child.kill('SIGTERM');
    await given.exited;
    expect(await answers(database)).toBe(true);
    expect(await answers(redis)).toBe(true);
  });

  it('starts only the server that is not given', async () => {
    const theirs = run(['--only', 'redis', ...nodeCommand(waiting)]);
    const { redis } = await urlsOf(theirs);

    const given = run(nodeCommand(waiting), { REDIS_URL: redis });

    const urls = await urlsOf(given);
    expect(urls.redis).toBe(redis);
    expect(await answers(urls.database)).toBe(true);
    expect(serverFolders(temporary)).toHaveLength(2);
  });

  it.each([
    [
      'does not answer',
      { DATABASE_URL: 'mysql://root:s3cret@127.0.0.1:1/' },
      /DATABASE_URL names 127\.0\.0\.1:1, which gives no answer/,
    ],
    [
      'is of no known kind',
      { REDIS_URL: 'http://:s3cret@127.0.0.1/' },
      /REDIS_URL is not a URL that starts with redis:/,
    ],
  ])('stops with one message, without the password, when a URL %s', async (_case, env, message) => {
    const launcher = run(nodeCommand(waiting), env);
    expect(await launcher.exited).toBe(1);
    expect(launcher.output()).toMatch(message);
    expect(launcher.output()).not.toContain('s3cret');
    await expectNothingLeft([], []);
  });

  it('refuses a given server that is not the kind asked for', async () => {
    // A server that greets as MariaDB does; nothing else is ever asked of it.
    const server = createServer((socket) => socket.end('\x40\0\0\0\x0a11.4.2-MariaDB\0'));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;

    const url = `mysql://127.0.0.1:${port}/`;
    const launcher = run(['--database', 'mysql', ...nodeCommand(waiting)], { DATABASE_URL: url, REDIS_URL: '' });

    expect(await launcher.exited).toBe(1);
    expect(launcher.output()).toContain(
      `DATABASE_URL names mariadb 11.4.2 on 127.0.0.1:${port}, but mysql is asked for`,
    );
    server.close();
  });
});

it('takes another port when somebody else was quicker to take the first', async () => {
  const theirs = run(['--only', 'redis', ...nodeCommand(waiting)]);
  const { redis } = await urlsOf(theirs);
  const script = `import { freePort } from '${scripts}servers/free-port.mjs';
    import { findRedis } from '${scripts}servers/installed-program.mjs';
    import { startPrivateRedis } from '${scripts}servers/private-redis.mjs';
    const ports = [${new URL(redis).port}, await freePort()];
    const { url } = await startPrivateRedis(findRedis(), async () => ports.shift());
    console.log('serving', null, url, '.');`;

  const second = start(temporary, ['--input-type=module', '-e', script]);

  expect((await urlsOf(second)).redis).not.toBe(redis);
  expect(await second.exited).toBe(0);
  expect(await answers(redis)).toBe(true);
});
