// Which servers the launcher (scripts/servers.mjs) takes: those of the user, which it never touches, or docker's. That
// installed ones are started otherwise is in launcher.spec.ts. Docker itself is a stand-in here that writes down its calls.
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { LauncherFixture, serving } from '../support/launcher/launcher-fixture.js';
import { answers, serverFolders } from '../support/launcher/launcher-run.js';

const scripts = new URL('../../scripts/', import.meta.url).href;

let launchers: LauncherFixture;

beforeEach(() => {
  launchers = new LauncherFixture();
});

afterEach(() => launchers.close());

it('uses DATABASE_URL and REDIS_URL as they are and never touches these servers', async () => {
  const { database, redis } = await launchers.serves(launchers.run([], serving));
  const before = serverFolders(launchers.temporary);

  const given = launchers.run([], serving, { DATABASE_URL: database, REDIS_URL: redis });

  expect(await launchers.serves(given)).toMatchObject({ database, redis });
  expect(given.output()).toMatch(/^servers: .+ \(DATABASE_URL\) and .+ \(REDIS_URL\), left as they are\n/);
  expect(serverFolders(launchers.temporary)).toEqual(before);
  given.child.kill('SIGTERM');
  await given.exited;
  expect(await answers(database)).toBe(true);
  expect(await answers(redis)).toBe(true);
});

it('starts only the server that is not given', async () => {
  const { redis } = await launchers.serves(launchers.run(['--only', 'redis'], serving));

  const given = await launchers.serves(launchers.run([], serving, { REDIS_URL: redis }));

  expect(given.redis).toBe(redis);
  expect(await answers(given.database)).toBe(true);
  expect(serverFolders(launchers.temporary)).toHaveLength(2);
});

it.each([
  [
    'names a server that does not answer',
    { DATABASE_URL: 'mysql://root:s3cret@127.0.0.1:1/' },
    /^servers: DATABASE_URL names 127\.0\.0\.1:1, which gives no answer/,
  ],
  [
    'is not of a known kind',
    { REDIS_URL: 'http://:s3cret@127.0.0.1/' },
    /^servers: REDIS_URL is not a URL that starts with redis:/,
  ],
])('stops with one message, without the password, when a URL %s', async (_case, env, message) => {
  const launcher = launchers.run([], serving, env);

  expect(await launcher.exited).toBe(1);

  expect(launcher.output()).toMatch(message);
  expect(launcher.output()).not.toContain('s3cret');
  await launchers.expectNothingLeft([], []);
});

it('refuses a given server that is not the kind asked for', async () => {
  // It greets as MariaDB does; nothing else is asked of it.
  const server = createServer((socket) => socket.end('\x40\0\0\0\x0a11.4.2-MariaDB\0'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  const at = `127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;

  const launcher = launchers.run(['--database', 'mysql'], serving, { DATABASE_URL: `mysql://${at}/` });

  expect(await launcher.exited).toBe(1);
  expect(launcher.output()).toContain(`DATABASE_URL names mariadb 11.4.2 on ${at}, but mysql is asked for`);
  server.close();
});

describe('out of docker compose', () => {
  /** Starts Redis out of docker compose, where docker publishes what `redis` names, and prints what came of it. */
  async function startWithDocker(redis: string, downCode: number): Promise<string> {
    const docker = join(launchers.temporary, 'docker');
    const script = `#!/bin/sh
      echo "$@" >> "$0.calls"
      case "$*" in
        *" port "*) echo "${new URL(redis).host}";;
        *" down "*) exit ${downCode};;
      esac`;
    writeFileSync(docker, script);
    chmodSync(docker, 0o755);
    const program = launchers.runModule(
      `import { startComposeServer } from '${scripts}servers/compose-server.mjs';
      const { url } = await startComposeServer('redis');
      console.log('serving', null, url, '.');`,
      { PATH: `${launchers.temporary}:${process.env.PATH}` },
    );
    const started = await launchers.serves(program);
    expect(started.redis).toBe(redis);
    expect(await program.exited).toBe(0);
    return readFileSync(`${docker}.calls`, 'utf8');
  }

  it('it starts a project of its own and takes it down at the end', async () => {
    const { redis } = await launchers.serves(launchers.run(['--only', 'redis'], serving));

    const calls = await startWithDocker(redis, 0);

    expect(calls).toMatch(
      /^compose -p (nestjs-mailroom-\w+) .* up --detach --wait redis\n(.*\n)*compose -p \1 .* down --volumes/,
    );
    expect(serverFolders(launchers.temporary)).toHaveLength(1);
  });

  it('it keeps the folder for the next sweep when docker fails to take the project down', async () => {
    const { redis } = await launchers.serves(launchers.run(['--only', 'redis'], serving));

    await startWithDocker(redis, 1);

    expect(serverFolders(launchers.temporary)).toHaveLength(2);
  });
});
