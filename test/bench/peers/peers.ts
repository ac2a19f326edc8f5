import { bullmq } from './bullmq.js';
import { graphileWorker } from './graphile-worker.js';
import type { Peer, PeerRun } from './peer.js';

export type { Peer, PeerRun };

/** What ours is measured beside; one that is not here counts as missed. */
export const peerNames = ['BullMQ', 'graphile-worker'] as const;

/** The peers whose servers answer. */
export async function findPeers(redisUrl: string): Promise<Peer[]> {
  const found = await Promise.all([bullmq(redisUrl), graphileWorker()]);
  return found.flatMap((peer) => (peer === null ? [] : [peer]));
}
