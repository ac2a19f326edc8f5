import { Injectable } from '@nestjs/common';
import { type OutboxContext, OutboxHandler, type OutboxMessage } from '../../index.js';

/** Topic of what the warehouse shall set aside. */
export const reserveTopic = 'warehouse.reserve';

export interface Reserve {
  readonly orderId: string;
  readonly amount: number;
}

/** The warehouse, which is part of this application: its row commits with the sent mark. */
@Injectable()
export class WarehouseHandler {
  @OutboxHandler(reserveTopic)
  async reserve(message: OutboxMessage<Reserve>, ctx: OutboxContext): Promise<void> {
    await ctx.manager.query(
      'INSERT INTO demo_reservation (message_id, order_id, reserved_at) VALUES (?, ?, UTC_TIMESTAMP(3))',
      [message.id, message.payload.orderId],
    );
  }
}
