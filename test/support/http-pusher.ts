import { Agent, request } from 'node:http';
import { opened } from './open-resources.js';

/** What a sender was answered. */
export interface PushAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly body: string;
  readonly tookMs: number;
}

export interface PushOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: that of the sender's URL. */
  readonly path?: string;
}

/** A sender of pushes over kept connections, as order centres are. Close it in the test that made it. */
export interface HttpPusher {
  /** Sends one push. Null when the connection broke before the answer was complete: it may be stored or not. */
  push(body: string | Buffer, options?: PushOptions): Promise<PushAnswer | null>;
  close(): void;
}

/** @param url of the path that takes the pushes */
export function httpPusher(url: string, connections = 64): HttpPusher {
  const agent = new Agent({ keepAlive: true, maxSockets: connections });
  const closed = opened({ what: `a sender of pushes to ${url}`, close: async () => agent.destroy() });
  return {
    push(body, { headers = {}, path } = {}) {
      const startedAt = performance.now();
      return new Promise((resolve) => {
        const sent = request(
          path === undefined ? url : new URL(path, url),
          {
            agent,
            method: 'POST',
            headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers },
          },
          (response) => {
            let text = '';
            response.setEncoding('utf8').on('data', (part: string) => {
              text += part;
            });
            response.on('end', () =>
              resolve({
                status: response.statusCode ?? 0,
                headers: response.headers,
                body: text,
                tookMs: performance.now() - startedAt,
              }),
            );
            response.on('error', () => resolve(null));
            response.on('close', () => resolve(null));
          },
        );
        sent.on('error', () => resolve(null));
        sent.end(body);
      });
    },
    close() {
      agent.destroy();
      closed();
    },
  };
}

/** Runs `work` for 0 to `count` - 1, `width` of them at a time. */
export async function inParallel(
  count: number,
  width: number,
  work: (index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  await Promise.all(
    Array.from({ length: Math.min(width, count) }, async () => {
      while (next < count) await work(next++);
    }),
  );
}
