import type { Delivery, Sent } from './demo-part.js';
import type { Instance } from './instance.js';

/** Chains in flight at once. */
const concurrency = 16;
/** As a real sender: three seconds, then the same push again. */
const patienceMs = 3_000;
const attempts = 10;

/** Pushes deliveries to the instances in turn and keeps what they answered. */
export async function send(
  deliveries: readonly Delivery[],
  instances: () => readonly Instance[],
  progress: () => void,
): Promise<Sent> {
  const chains = [...groupByChain(deliveries).values()];
  const storedIds: string[] = [];
  let duplicates = 0;
  let unacknowledged = 0;
  let turn = 0;

  async function deliver(delivery: Delivery): Promise<void> {
    for (let attempt = 1; attempt <= attempts; attempt++) {
      const alive = instances();
      const instance = alive[turn++ % alive.length];
      const receipt = instance && (await push(instance.url, delivery));
      if (receipt) {
        if (receipt.duplicate) duplicates++;
        else storedIds.push(receipt.id);
        return progress();
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    unacknowledged++;
    progress();
  }

  async function worker(): Promise<void> {
    for (let chain = chains.shift(); chain; chain = chains.shift()) {
      for (const delivery of chain) await deliver(delivery);
    }
  }

  await Promise.all(Array.from({ length: concurrency }, worker));
  return { pushes: deliveries.length, storedIds, duplicates, unacknowledged };
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
