import { setTimeout as sleep } from 'node:timers/promises';
import type { Connection } from 'mysql2/promise';
import { ChatClient } from './chat-client.js';
import { count, unsent } from './count.js';
import type { Instance } from './instance.js';

const conversationId = 'demo';
/** The first one is offline until everything else is over. */
const [absent, ...present] = ['anna', 'ben', 'carl'] as const;
const rounds = 20;
const blockedPosts = 5;
const pauseMs = 50;
const patienceMs = 3_000;
const giveUpAfterMs = 60_000;
const settleTimeoutMs = 60_000;

export interface ChatVerdict {
  readonly lost: number;
  /** Frames that came again, which their client dropped. */
  readonly repeats: number;
  readonly problems: readonly string[];
}

/**
 * A conversation of three receivers while instances crash: one message for each of them in every round, and some that the
 * moderation refuses. One receiver is offline all the while and comes online at the end.
 */
export class ChatScene {
  private readonly clients: readonly ChatClient[];
  private readonly acknowledged: string[] = [];
  private unanswered = 0;
  private wronglyTaken = 0;
  private isClosed = false;

  constructor(
    private readonly instances: () => readonly Instance[],
    private readonly signal: AbortSignal,
  ) {
    this.clients = [absent, ...present].map((userId) => new ChatClient(userId, instances));
  }

  /** Those who are online connect, and all messages are posted, one after the other. */
  async talk(): Promise<void> {
    for (const client of this.clients) if (client.userId !== absent) client.goOnline();
    for (let round = 0; round < rounds && !this.isOver; round++) {
      for (const { userId } of this.clients) await this.post(userId, `round ${round}`);
      if (round < blockedPosts) await this.post(present[0], `round ${round} [blocked]`);
    }
  }

  /** The one who was offline comes online. Resolves when nothing waits to be sent any more, or after a minute. */
  async end(database: Connection): Promise<void> {
    for (const client of this.clients) client.goOnline();
    const giveUpAt = performance.now() + settleTimeoutMs;
    while ((await count(database, unsent)) > 0 && performance.now() < giveUpAt && !this.signal.aborted)
      await sleep(pauseMs);
  }

  /** Everybody leaves, and nothing more is posted. */
  close(): void {
    this.isClosed = true;
    for (const client of this.clients) client.goOffline();
  }

  /** Every stored message has reached its client, in order; nothing else has. */
  async verify(database: Connection): Promise<ChatVerdict> {
    const problems: string[] = [];
    let lost = 0;
    for (const { userId, seqNos } of this.clients) {
      const [rows] = await database.query('SELECT seq_no FROM im_message WHERE receiver_id = ? ORDER BY seq_no', [
        userId,
      ]);
      const stored = (rows as { seq_no: string }[]).map((row) => Number(row.seq_no));
      lost += stored.filter((seqNo) => !seqNos.includes(seqNo)).length;
      if (String(stored) !== String(seqNos)) problems.push(`${userId} got ${seqNos} of the messages ${stored}`);
    }
    const arrived = new Set(this.clients.flatMap(({ seen }) => [...seen]));
    const missing = this.acknowledged.filter((messageId) => !arrived.has(messageId)).length;
    if (missing > 0) problems.push(`${missing} posts that were answered did not arrive`);
    if (this.unanswered > 0) problems.push(`${this.unanswered} posts were never answered`);
    if (this.wronglyTaken > 0) problems.push(`${this.wronglyTaken} blocked posts were taken`);
    return { lost, repeats: this.clients.reduce((all, { repeats }) => all + repeats, 0), problems };
  }

  private get isOver(): boolean {
    return this.isClosed || this.signal.aborted;
  }

  /** Again until it is answered; a post whose answer was lost may so be stored twice, as two messages. */
  private async post(receiverId: string, content: string): Promise<void> {
    const body = JSON.stringify({ conversationId, senderId: 'demo', receiverId, content });
    const giveUpAt = performance.now() + giveUpAfterMs;
    for (let turn = 0; performance.now() < giveUpAt && !this.isOver; turn++) {
      const alive = this.instances();
      const instance = alive[turn % alive.length];
      const answer = instance ? await posted(instance.url, body) : null;
      if (answer?.status === 201) {
        if (content.includes('[blocked]')) this.wronglyTaken++;
        this.acknowledged.push(answer.messageId);
        return;
      }
      if (answer?.status === 422) return;
      await sleep(pauseMs);
    }
    this.unanswered++;
  }
}

async function posted(
  url: string,
  body: string,
): Promise<{ readonly status: number; readonly messageId: string } | null> {
  try {
    const response = await fetch(new URL('/im/messages', url), {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body,
      signal: AbortSignal.timeout(patienceMs),
    });
    const { messageId } = (await response.json()) as { messageId?: string };
    return { status: response.status, messageId: messageId ?? '' };
  } catch {
    return null;
  }
}
