import { Inject, Injectable, UnprocessableEntityException } from '@nestjs/common';
import { DataSource, type EntityManager } from 'typeorm';
import { type DeliveryState, OutboxService } from '../../index.js';
import { type ImMessage, imTopic } from './im-message.js';

/** A posted message: its id, its place in the conversation, and the id that clients drop repetitions by. */
export interface Posted {
  readonly id: string;
  readonly seqNo: number;
  readonly messageId: string;
}

/** Content that the moderation refuses. */
const blocked = '[blocked]';

/** Stores chat messages, and with them in the same transaction what is to be pushed. */
@Injectable()
export class ImService {
  constructor(
    @Inject(DataSource) private readonly dataSource: DataSource,
    @Inject(OutboxService) private readonly outbox: OutboxService,
  ) {}

  /** @throws UnprocessableEntityException for blocked content: then nothing is stored and nothing pushed */
  post(message: ImMessage): Promise<Posted> {
    const { conversationId, senderId, receiverId, content } = message;
    return this.dataSource.transaction('READ COMMITTED', async (manager) => {
      const seqNo = await nextSeqNo(manager, conversationId);
      const { insertId } = (await manager.query(
        `INSERT INTO im_message (conversation_id, seq_no, sender_id, receiver_id, content, created_at)
         VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(3))`,
        [conversationId, seqNo, senderId, receiverId, content],
      )) as { insertId: number | string };
      const id = String(insertId);
      const [messageId = ''] = await this.outbox.enqueue(manager, {
        topic: imTopic,
        key: conversationId,
        receiver: receiverId,
        sequence: seqNo,
        subject: imSubject(id),
        payload: { id, conversationId, senderId, content },
      });
      if (content.includes(blocked)) throw new UnprocessableEntityException('the content is blocked');
      return { id, seqNo, messageId };
    });
  }

  /** The message and what became of it on its way; null without one. */
  async find(id: string): Promise<Record<string, unknown> | null> {
    const rows: Record<string, unknown>[] = await this.dataSource.query(
      `SELECT CAST(id AS CHAR) AS id, conversation_id AS conversationId, seq_no AS seqNo, sender_id AS senderId,
              receiver_id AS receiverId, content, DATE_FORMAT(created_at, '%Y-%m-%dT%H:%i:%s.%fZ') AS createdAt
         FROM im_message WHERE id = ?`,
      [id],
    );
    const [message] = rows;
    if (!message) return null;
    const [found] = await this.outbox.find({ subject: imSubject(id) });
    return { ...message, seqNo: Number(message.seqNo), delivery: found ? deliveryOf(found) : null };
  }
}

/** The conversation's row stays locked until the commit, so numbers are given out in commit order and without gaps. */
async function nextSeqNo(manager: EntityManager, conversationId: string): Promise<number> {
  await manager.query(
    'INSERT INTO im_conversation (conversation_id, last_seq) VALUES (?, 1) ON DUPLICATE KEY UPDATE last_seq = last_seq + 1',
    [conversationId],
  );
  const rows: { last: string | number }[] = await manager.query(
    'SELECT last_seq AS last FROM im_conversation WHERE conversation_id = ? FOR UPDATE',
    [conversationId],
  );
  return Number(rows[0]?.last);
}

/** What a client may know of its way. */
function deliveryOf({ id, status, attempts, errorKind, sentAt }: DeliveryState): Record<string, unknown> {
  return { messageId: id, status, attempts, errorKind, sentAt: sentAt && `${sentAt.replace(' ', 'T')}Z` };
}

function imSubject(id: string): string {
  return `im:${id}`;
}
