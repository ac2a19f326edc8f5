import { type ChildProcess, fork } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { opened } from '../../support/open-resources.js';

/** A process of the bench that answers one message at a time: the server under load, or the load. */
export interface Worker {
  /** @throws Error when the process ends instead of answering, or answers with a failure */
  ask<Reply>(request: unknown): Promise<Reply>;
  /** Ends it in order; kills it when that takes more than ten seconds. */
  stop(): Promise<void>;
}

export interface WorkerOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Further switches of Node.js, for example `--cpu-prof`. */
  readonly execArgv?: readonly string[];
}

type Answer = { readonly reply: unknown } | { readonly failure: string };

const typescript = new URL('../../support/typescript/register.mjs', import.meta.url).href;
const stopLimitMs = 10_000;

/** Starts `script`, which calls `answerRequests`. */
export function startWorker(script: URL, { env = {}, execArgv = [] }: WorkerOptions = {}): Worker {
  const child = fork(fileURLToPath(script), {
    execArgv: ['--no-warnings', '--import', typescript, ...execArgv],
    env: { ...process.env, NODE_OPTIONS: '', ...env },
    serialization: 'advanced',
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const stop = () => stopChild(child, ended);
  const closed = opened({ what: `bench process ${script.pathname}`, close: stop });
  void ended.then(closed);
  return {
    ask: <Reply>(request: unknown) => ask(child, script, request) as Promise<Reply>,
    stop,
  };
}

function ask(child: ChildProcess, script: URL, request: unknown): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null, signal: string | null) => {
      child.off('message', onMessage);
      reject(new Error(`${script.pathname} ended (${code ?? signal}) before it answered`));
    };
    const onMessage = (answer: Answer) => {
      child.off('exit', onExit);
      if ('reply' in answer) resolve(answer.reply);
      else reject(new Error(`${script.pathname}: ${answer.failure}`));
    };
    if (child.exitCode !== null || child.signalCode !== null) return onExit(child.exitCode, child.signalCode);
    child.once('exit', onExit).once('message', onMessage as (message: unknown) => void);
    child.send(request as object);
  });
}

async function stopChild(child: ChildProcess, ended: Promise<void>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const killer = setTimeout(() => child.kill('SIGKILL'), stopLimitMs);
  if (child.connected) child.disconnect();
  await ended;
  clearTimeout(killer);
}

/** The other side: answers each request, and calls `close` when the bench lets go of this process. */
export function answerRequests(answer: (request: never) => Promise<unknown>, close: () => Promise<void>): void {
  process.on('message', (request) => {
    answer(request as never).then(
      (reply) => process.send?.({ reply } satisfies Answer),
      (error: unknown) => process.send?.({ failure: String((error as Error)?.stack ?? error) } satisfies Answer),
    );
  });
  process.once('disconnect', () => void close().finally(() => process.exit()));
}
