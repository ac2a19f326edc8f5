// What the tests themselves stand on: the leak check sees each kind of leak, children and private servers do as told.
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { createConnection } from 'mysql2/promise';
import { startChild } from '../support/child.js';
import { createTestDatabase } from '../support/database.js';
import { startPrivateDatabase } from '../support/private-database.js';
import { connectTestRedis, startPrivateRedis } from '../support/redis.js';
import { waitUntil } from '../support/wait-until.js';

const fixtures = new URL('../support/fixtures/', import.meta.url);

describe('the leak check', () => {
  const pathTo = (path: string) => fileURLToPath(new URL(path, import.meta.url));
  const runLeaking = (leak: string) => {
    const jest = [pathTo('../../node_modules/jest/bin/jest.js'), '-c', pathTo('../jest.config.mjs')];
    const spec = ['--selectProjects', 'integration', '--testMatch', pathTo('../support/fixtures/leaking.spec.ts')];
    return spawnSync(process.execPath, ['--experimental-vm-modules', ...jest, ...spec], {
      encoding: 'utf8',
      env: { ...process.env, LEAK: leak },
      timeout: 30_000,
    });
  };

  test('passes a file that closed everything', () => {
    const { status, stderr } = runLeaking('nothing');
    expect(stderr).toContain('1 passed');
    expect(status).toBe(0);
  });

  test.each([
    ['a timer', 'timer', /setInterval at .*leaking\.spec\.ts:\d+/],
    [
      'a server, a child and a database',
      'server child database',
      /database mailroom_test_leaking_.*TCPServerWrap.*ProcessWrap/s,
    ],
    ['a connection that only the server knows', 'connection', /connection \d+ of mailroom_test_leaking_/],
  ])('fails a file that leaves open %s, and the run still ends', (_, leaks, message) => {
    const { status, stderr } = runLeaking(leaks);
    expect(stderr).toMatch(message);
    expect(status).toBe(1);
  });
});

describe('a child', () => {
  test('gives out its lines in order and tells how it ended', async () => {
    const child = startChild(new URL('chatty-child.ts', fixtures));
    expect(await child.line('ready')).toBe('ready function');
    child.send('one');
    child.send('two');
    child.send('end');
    expect(await child.line(/^heard t/)).toBe('heard two');
    await expect(child.line('never')).rejects.toThrow(/ended .*before it prints never[\s\S]*heard end/);
    expect(await child.ended).toEqual({ code: 3, signal: null });
  });

  test('is frozen by SIGSTOP, goes on at SIGCONT and is gone after kill()', async () => {
    const child = startChild(new URL('chatty-child.ts', fixtures));
    await child.line('ready');
    child.signal('SIGSTOP');
    child.send('hello');
    await expect(child.line('heard', 300)).rejects.toThrow('waited 300 ms in vain until it prints heard');
    child.signal('SIGCONT');
    expect(await child.line('heard')).toBe('heard hello');
    expect(await child.kill()).toEqual({ code: null, signal: 'SIGKILL' });
  });
});

test('waiting in vain names what was waited for and what was seen last', async () => {
  await expect(waitUntil(() => 0, { what: 'rows come', timeoutMs: 50 })).rejects.toThrow(
    'waited 50 ms in vain until rows come (last seen: 0)',
  );
  const failing = () => {
    throw new Error('no server');
  };
  await expect(waitUntil(failing, { what: 'it answers', timeoutMs: 50 })).rejects.toThrow('no server');
});

test('keys of the shared Redis are told apart by prefix, and dropped', async () => {
  const redis = await connectTestRedis('support');
  const other = await connectTestRedis('support');
  await redis.client.set(`${redis.prefix}a`, '1');
  expect(await redis.keys()).toEqual(['a']);
  expect(await other.keys()).toEqual([]);
  await redis.drop();
  expect(await other.client.exists(`${redis.prefix}a`)).toBe(0);
  await other.drop();
});

test('a private Redis is killed, started again at the same port, frozen and removed', async () => {
  const server = await startPrivateRedis();
  const { pid, url } = server;
  await server.kill();
  await server.start();
  expect(server.url).toBe(url);
  expect(server.pid).not.toBe(pid);

  const client = new Redis(url, { retryStrategy: null });
  await client.ping();
  server.pause();
  let answered = false;
  const ping = client.ping().then(() => {
    answered = true;
  });
  await expect(waitUntil(() => answered, { what: 'it answers', timeoutMs: 200 })).rejects.toThrow('in vain');
  server.resume();
  await ping;
  client.disconnect();

  server.pause();
  await server.remove();
});

test('a private database keeps its data over SIGKILL and an orderly restart', async () => {
  const server = await startPrivateDatabase();
  const database = await createTestDatabase('support', { serverUrl: server.url });
  await database.query('CREATE TABLE note (id INT PRIMARY KEY)');
  await database.query('INSERT INTO note VALUES (1)');
  await server.kill();
  await server.start();
  const read = async () => {
    const connection = await createConnection(database.url);
    try {
      return (await connection.query('SELECT id FROM note'))[0];
    } finally {
      await connection.end();
    }
  };
  expect(await read()).toEqual([{ id: 1 }]);
  await server.stop();
  await server.start();
  expect(await read()).toEqual([{ id: 1 }]);
  await database.drop();
  await server.remove();
});
