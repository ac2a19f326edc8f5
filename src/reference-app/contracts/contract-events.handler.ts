import { Inject, Injectable } from '@nestjs/common';
import {
  type InboxBatchContext,
  InboxBatchHandler,
  type InboxMessage,
  isDuplicateKey,
  PermanentFailureError,
} from '../../index.js';
import type { Environment } from '../environment.js';
import { environmentToken } from '../environment.token.js';
import { simulate } from '../simulate.js';
import { type ContractEvent, signTimeOf } from './contract-event.js';
import { contractSource, contractType } from './contract-source.js';

type Message = InboxMessage<ContractEvent>;

/**
 * Writes down the states of a contract, all that came together in one statement. A state that is known already is told
 * by its unique key: the same again is a success, another time for it is a contradiction that a person must look at.
 */
@Injectable()
export class ContractEventsHandler {
  constructor(@Inject(environmentToken) private readonly environment: Environment) {}

  @InboxBatchHandler(contractType, { source: contractSource, size: 100, groupBy: (message) => message.json.contractId })
  async signed(messages: readonly Message[], ctx: InboxBatchContext): Promise<void> {
    for (const message of messages)
      await simulate(this.environment.SIMULATE, message.json, {
        signal: ctx.signal,
        attempt: ctx.attemptOf(message),
      });
    try {
      await this.insert(messages, ctx);
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      for (const message of messages) await this.insertOrCompare(message, ctx);
    }
  }

  private async insert(messages: readonly Message[], { manager }: InboxBatchContext): Promise<void> {
    await manager.query(
      `INSERT INTO demo_contract (contract_id, sign_status, sign_time, message_id)
       VALUES ${messages.map(() => '(?, ?, ?, ?)').join(', ')}`,
      messages.flatMap(({ id, json }) => [json.contractId, json.signStatus, signTimeOf(json), id]),
    );
  }

  private async insertOrCompare(message: Message, ctx: InboxBatchContext): Promise<void> {
    try {
      await this.insert([message], ctx);
    } catch (error) {
      if (!isDuplicateKey(error)) throw error;
      const { contractId, signStatus } = message.json;
      const [known]: { signTime: string }[] = await ctx.manager.query(
        'SELECT CAST(sign_time AS CHAR) AS signTime FROM demo_contract WHERE contract_id = ? AND sign_status = ?',
        [contractId, signStatus],
      );
      if (known?.signTime === signTimeOf(message.json)) return;
      const text = `the contract has another time for the status ${signStatus}`;
      ctx.fail(message, new PermanentFailureError(text, { kind: 'conflict' }));
    }
  }
}
