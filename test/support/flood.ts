import { fileURLToPath } from 'node:url';
import { startChild } from './child.js';
import type { FloodResult } from './fixtures/flood.js';

const script = fileURLToPath(new URL('./fixtures/flood.ts', import.meta.url));

export interface FloodOptions {
  readonly url: string;
  readonly ratePerSecond: number;
  readonly seconds: number;
  /** Of its keys, so that two floods do not send the same. Default 'f'. */
  readonly prefix?: string;
}

/** Pushes at a fixed rate from a process of its own, whatever the answers are, and resolves with what came of it. */
export async function flood({ url, ratePerSecond, seconds, prefix = 'f' }: FloodOptions): Promise<FloodResult> {
  const child = startChild(script, {
    env: {
      FLOOD_URL: url,
      FLOOD_RATE: String(ratePerSecond),
      FLOOD_SECONDS: String(seconds),
      FLOOD_PREFIX: prefix,
    },
  });
  try {
    return JSON.parse(await child.line('{', seconds * 3_000 + 60_000)) as FloodResult;
  } finally {
    await child.kill();
  }
}
