import { Controller, Get, Inject, NotFoundException, Param } from '@nestjs/common';
import { DataSource } from 'typeorm';

/** What the handlers did to an order. */
@Controller('orders')
export class OrderController {
  constructor(@Inject(DataSource) private readonly dataSource: DataSource) {}

  @Get(':id')
  async show(@Param('id') id: string): Promise<Record<string, unknown>> {
    const rows: Record<string, unknown>[] = await this.dataSource.query(
      `SELECT order_id AS orderId, status, CAST(amount AS CHAR) AS amount, applied_events AS appliedEvents,
              ignored_events AS ignoredEvents, DATE_FORMAT(updated_at, '%Y-%m-%dT%H:%i:%s.%fZ') AS updatedAt
         FROM demo_order WHERE order_id = ?`,
      [id.slice(0, 64)],
    );
    const order = rows[0];
    if (!order) throw new NotFoundException('there is no such order');
    return { ...order, amount: Number(order.amount) };
  }
}
