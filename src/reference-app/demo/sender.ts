import type { Delivery, Sent } from './demo-part.js';
import type { Instance } from './instance.js';

/** Chains in flight at once. */
const concurrency = 16;
/** As a real sender: three seconds, then the same push again. */
const patienceMs = 3_000;
const pauseMs = 100;
/** Long enough for an instance to be started again on a slow machine. */
const giveUpAfterMs = 60_000;

/** Pushes deliveries to the instances in turn and keeps what they answered. Stops when `signal` is aborted. */
export async function send(
  deliveries: readonly Delivery[],
  instances: () => readonly Instance[],
  progress: () => void,
  signal: AbortSignal,
): Promise<Sent> {
  const chains = [...groupByChain(deliveries).values()];
  const storedIds = new Set<string>();
  let pushes = 0;
  let duplicates = 0;
  let repeats = 0;
  let unacknowledged = 0;
  let turn = 0;

  async function deliver(delivery: Delivery): Promise<void> {
    const giveUpAt = performance.now() + giveUpAfterMs;
    while (performance.now() < giveUpAt && !signal.aborted) {
      const alive = instances();
      const instance = alive[turn++ % alive.length];
      const receipt = instance && (await push(instance.url, delivery));
      if (receipt) {
        pushes++;
        if (receipt.duplicate) duplicates++;
        storedIds.add(receipt.id);
        return progress();
      }
      if (instance) repeats++;
      await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
    unacknowledged++;
    progress();
  }

  async function worker(): Promise<void> {
    for (let chain = chains.shift(); chain && !signal.aborted; chain = chains.shift()) {
      for (const delivery of chain) await deliver(delivery);
    }
  }

  await Promise.all(Array.from({ length: concurrency }, worker));
  return { pushes, storedIds: [...storedIds], duplicates, repeats, unacknowledged };
}

interface StoredReceipt {
  readonly id: string;
  readonly duplicate: boolean;
}

/** Null when it was not acknowledged: the sender cannot know whether it was stored, and pushes it again. */
async function push(url: string, { path, headers, body }: Delivery): Promise<StoredReceipt | null> {
  try {
    const response = await fetch(new URL(path, url), {
      method: 'POST',
      headers,
      body: new Uint8Array(body),
      signal: AbortSignal.timeout(patienceMs),
    });
    const text = await response.text();
    return response.ok ? (JSON.parse(text) as StoredReceipt) : null;
  } catch {
    return null;
  }
}

function groupByChain(deliveries: readonly Delivery[]): Map<string, Delivery[]> {
  const chains = new Map<string, Delivery[]>();
  for (const delivery of deliveries) {
    const chain = chains.get(delivery.chain);
    if (chain) chain.push(delivery);
    else chains.set(delivery.chain, [delivery]);
  }
  return chains;
}
