// The life of a run of the launcher (scripts/servers.mjs): it starts servers, runs a command, and leaves nothing behind,
// whichever way it ends. On real processes. Where the kind of server does not matter it is Redis, the quickest to start.
import { LauncherFixture, serving } from '../support/launcher/launcher-fixture.js';
import {
  answers,
  isRunning,
  recordedProcesses,
  serverFolders,
  signalAsTerminal,
} from '../support/launcher/launcher-run.js';
import { waitUntil } from '../support/wait-until.js';

const scripts = new URL('../../scripts/', import.meta.url).href;

let launchers: LauncherFixture;

beforeEach(() => {
  launchers = new LauncherFixture();
});

afterEach(() => launchers.close());

it('runs a command with private servers, says so in one line, and leaves nothing behind', async () => {
  const launcher = launchers.run([], `process.on('SIGUSR2', () => process.exit(7)); ${serving}`);
  const { database, redis, pids } = await launchers.serves(launcher);
  expect(database).toMatch(/^mysql:\/\/root@127\.0\.0\.1:\d+\/$/);
  expect(redis).toMatch(/^redis:\/\/127\.0\.0\.1:\d+$/);
  expect(await answers(database)).toBe(true);
  expect(await answers(redis)).toBe(true);
  const said = launcher.output().replace(/^serving.*\n/m, '');
  expect(said).toMatch(/^servers: \w+ [\d.]+ on 127.+ and redis [\d.]+ on 127.+, private, started in [\d.]+ s\n$/);

  // The last one written down is the command itself.
  process.kill(pids.at(-1) ?? 0, 'SIGUSR2');

  expect(await launcher.exited).toBe(7);
  await launchers.expectNothingLeft(pids, [database, redis]);
});

it('works twice at the same time: each launcher has servers of its own', async () => {
  const both = [launchers.run(['--only', 'redis'], serving), launchers.run(['--only', 'redis'], serving)] as const;
  const first = await launchers.serves(both[0]);
  const second = await launchers.serves(both[1]);
  expect(first.redis).not.toBe(second.redis);

  both[0].child.kill('SIGTERM');
  await both[0].exited;

  expect(await answers(first.redis)).toBe(false);
  expect(await answers(second.redis)).toBe(true);
  expect(serverFolders(launchers.temporary)).toHaveLength(1);
});

it.each(['SIGINT', 'SIGTERM'] as const)(
  'passes %s to the command once, keeps the servers until it has ended, and leaves nothing behind',
  async (signal) => {
    const script = `
      let seen = 0;
      process.on('${signal}', () => {
        seen += 1;
        setTimeout(() => {
          const { port } = new URL(process.env.REDIS_URL);
          require('node:net').connect(port, '127.0.0.1', () => { console.log('signals', seen, 'served'); process.exit(3); });
        }, 200);
      });`;
    const launcher = launchers.run([], script + serving);
    const { database, redis, pids } = await launchers.serves(launcher);

    // A Ctrl-C comes twice: the terminal signals the whole group, and npm passes it on.
    signalAsTerminal(launcher, signal);
    launcher.child.kill(signal);

    expect(await launcher.exited).toBe(3);
    expect(launcher.output()).toContain('signals 1 served');
    await launchers.expectNothingLeft(pids, [database, redis]);
  },
);

it('ends a command that ignores SIGINT when SIGINT comes again, and leaves nothing behind', async () => {
  const launcher = launchers.run(['--only', 'redis'], `process.on('SIGINT', () => {}); ${serving}`);
  const { redis, pids } = await launchers.serves(launcher);

  // Until the command is gone: a launcher that is ending by itself does not listen any more.
  const impatience = setInterval(() => pids.every(isRunning) && signalAsTerminal(launcher, 'SIGINT'), 100);
  const code = await launcher.exited;
  clearInterval(impatience);
  expect(code).toBe(137);

  await launchers.expectNothingLeft(pids, [redis]);
});

it('ends what the command left running in its process group', async () => {
  const script = `
    const left = require('node:child_process').spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']);
    console.log('left', left.pid, '.');
    process.exit(0);`;
  const launcher = launchers.run(['--only', 'redis'], script);
  const [, left = ''] = await launcher.prints(/left (\d+) \./);

  expect(await launcher.exited).toBe(0);

  await launchers.expectNothingLeft([Number(left)], []);
});

it('leaves nothing behind when a signal comes while the servers are started', async () => {
  const launcher = launchers.run([], serving);
  const pids = () => recordedProcesses(launchers.temporary).map(({ pid }) => pid);
  await waitUntil(() => pids().length > 0, { what: 'a manifest names a process' });
  const started = pids();

  launcher.child.kill('SIGTERM');

  expect(await launcher.exited).toBe(143);
  await launchers.expectNothingLeft(started, []);
});

it('leaves nothing behind when the process that started the servers ends by an uncaught error', async () => {
  const program = launchers.runModule(`
    import { startServers } from '${scripts}servers.mjs';
    const { redisUrl } = await startServers({ database: 'none' });
    console.log('serving', null, redisUrl, '.');
    setTimeout(() => { throw new Error('a bug'); }, 10);`);
  const { redis, pids } = await launchers.serves(program);

  expect(await program.exited).toBe(1);

  await launchers.expectNothingLeft(pids, [redis]);
});

it('takes another port when somebody else was quicker to take the first', async () => {
  const theirs = await launchers.serves(launchers.run(['--only', 'redis'], serving));

  const second = launchers.runModule(`
    import { freePort } from '${scripts}servers/free-port.mjs';
    import { findRedis } from '${scripts}servers/installed-program.mjs';
    import { startPrivateRedis } from '${scripts}servers/private-redis.mjs';
    const ports = [${new URL(theirs.redis).port}, await freePort()];
    const { url } = await startPrivateRedis(findRedis(), async () => ports.shift());
    console.log('serving', null, url, '.');`);

  expect((await launchers.serves(second)).redis).not.toBe(theirs.redis);
  expect(await second.exited).toBe(0);
  expect(await answers(theirs.redis)).toBe(true);
});

it('exits with 127 and a message when the command cannot be started', async () => {
  const launcher = launchers.launch(['run', '--only', 'redis', '--', '/no/such/command']);

  expect(await launcher.exited).toBe(127);

  expect(launcher.output()).toContain('cannot run /no/such/command');
  await launchers.expectNothingLeft([], []);
});
