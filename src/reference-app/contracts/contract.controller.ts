import { Controller, Get, Inject, NotFoundException, Param } from '@nestjs/common';
import { DataSource } from 'typeorm';

interface ContractState {
  readonly signStatus: string;
  readonly signTime: string;
}

/** What the handler wrote down of a contract. */
@Controller('contracts')
export class ContractController {
  constructor(@Inject(DataSource) private readonly dataSource: DataSource) {}

  /** The latest state, and all of them in the order in which they came. */
  @Get(':id')
  async show(@Param('id') id: string): Promise<Record<string, unknown>> {
    const contractId = id.slice(0, 64);
    const states: ContractState[] = await this.dataSource.query(
      `SELECT sign_status AS signStatus, DATE_FORMAT(sign_time, '%Y-%m-%dT%H:%i:%s.%fZ') AS signTime
         FROM demo_contract WHERE contract_id = ? ORDER BY id LIMIT 100`,
      [contractId],
    );
    const latest = states.at(-1);
    if (!latest) throw new NotFoundException('there is no such contract');
    return { contractId, ...latest, states };
  }
}
