import type { Connection } from 'mysql2/promise';
import { type ContractEvent, signTimeOf } from '../contracts/contract-event.js';
import { contractSource } from '../contracts/contract-source.js';
import { count } from './count.js';
import type { Delivery, DemoPart, Sent, Verdict } from './demo-part.js';
import { standardWebhookHeaders } from './signing.js';

const contracts = 50;
const statuses = ['SENT', 'VIEWED', 'SIGNED'];
/** One in so many events is pushed again, and one in so many is told a second time under another id. */
const repeatEvery = 5;
const retellEvery = 7;
/** One that fails at first fails the whole call of its contract, which is then done one by one. */
const failEvery = 31;
/** This contract is signed once more, at another time. */
const contradicted = 'contract-3';

/** Contract events in batches; some are told twice, and one contradicts what is known and must end as failed. */
export class ContractsPart implements DemoPart {
  readonly name = 'contract events';
  readonly source = contractSource;
  /** Time of each state, by contract and status. */
  private readonly expected = new Map<string, string>();
  private messages = 0;

  constructor(private readonly secret: string) {}

  deliveries(): readonly Delivery[] {
    const deliveries: Delivery[] = [];
    let events = 0;
    for (let contract = 0; contract < contracts; contract++) {
      const contractId = `contract-${contract}`;
      for (const signStatus of statuses) {
        events++;
        const state = { contractId, signStatus, signTime: timeOf(events) };
        this.expected.set(keyOf(state), signTimeOf(state));
        const delivery = this.delivery({
          ...state,
          ...(events % failEvery === 0 ? { simulate: { failTimes: 1 } } : {}),
        });
        deliveries.push(delivery);
        if (events % repeatEvery === 0) deliveries.push(delivery);
        if (events % retellEvery === 0) deliveries.push(this.delivery(state));
      }
    }
    deliveries.push(this.delivery({ contractId: contradicted, signStatus: 'SIGNED', signTime: timeOf(0) }));
    return deliveries;
  }

  async verify(database: Connection, sent: Sent): Promise<Verdict> {
    const [rows] = await database.query(
      'SELECT contract_id AS contractId, sign_status AS signStatus, CAST(sign_time AS CHAR) AS signTime FROM demo_contract',
    );
    const found = new Map((rows as ContractEvent[]).map((row) => [keyOf(row), row.signTime]));
    const problems: string[] = [];
    let lost = 0;
    for (const [state, time] of this.expected) {
      if (found.get(state) === time) continue;
      problems.push(`${state}: expected at ${time}, found ${found.get(state) ?? 'nothing'}`);
      lost++;
    }
    const extra = Math.max(0, found.size - this.expected.size);
    if (extra > 0) problems.push(`${extra} contract states that nobody pushed`);
    const conflicts = await count(
      database,
      "SELECT COUNT(*) AS n FROM message_log WHERE source = ? AND status = 'failed' AND error_kind = 'conflict'",
      [contractSource],
    );
    if (conflicts !== 1) problems.push(`${conflicts} contradictions of contracts were found, 1 was sent`);
    if (sent.storedIds.length !== this.messages)
      problems.push(`${sent.storedIds.length} contract events were stored, ${this.messages} sent`);
    return { lost, appliedTwice: extra, plannedFailures: 1, problems };
  }

  private delivery(event: ContractEvent & { readonly simulate?: object }): Delivery {
    const msgId = `contract-msg-${++this.messages}`;
    const body = Buffer.from(JSON.stringify({ msgId, ...event }));
    const headers = standardWebhookHeaders(this.secret, `msg_${msgId}`, body);
    return { chain: event.contractId, path: '/webhooks/contracts', headers, body };
  }
}

function timeOf(event: number): string {
  return new Date(Date.UTC(2026, 0, 1) + event * 60_000).toISOString();
}

function keyOf({ contractId, signStatus }: Pick<ContractEvent, 'contractId' | 'signStatus'>): string {
  return `${contractId} ${signStatus}`;
}
