import type { Connection } from 'mysql2/promise';
import { type CrmProfile, crmSource } from '../crm/crm-push.js';
import type { Delivery, DemoPart, Sent, Verdict } from './demo-part.js';

const customers = 20;
const pushesEach = 10;
const headers = { 'content-type': 'application/json' };

/**
 * Pushes of customer profiles, each customer again and again, without any id. A push whose answer was lost is stored a
 * second time: nobody can tell. So the stored messages are what must have been applied, each once, to one profile.
 */
export class CrmPart implements DemoPart {
  readonly name = 'CRM profiles';
  readonly source = crmSource;

  deliveries(): readonly Delivery[] {
    return Array.from({ length: customers * pushesEach }, (_, count) => {
      const externalId = `customer-${count % customers}`;
      const profile: CrmProfile = { externalId, name: `name ${count}`, phone: `+49 30 ${count}` };
      const body = Buffer.from(JSON.stringify({ msgType: 1008, msgStr: JSON.stringify(profile) }));
      return { chain: externalId, path: '/push', headers, body };
    });
  }

  async verify(database: Connection, sent: Sent): Promise<Verdict> {
    const handled = await handledPushes(database);
    const profiles = await storedProfiles(database);
    const problems: string[] = [];
    let lost = 0;
    let appliedTwice = 0;
    for (const customer of new Set([...handled.keys(), ...profiles.keys()])) {
      const pushes = handled.get(customer) ?? { count: 0, lastName: null };
      const found = profiles.get(customer) ?? [];
      const applied = found.reduce((all, { merged }) => all + 1 + merged, 0);
      const isRight = found.length === 1 && applied === pushes.count && found[0]?.name === pushes.lastName;
      if (isRight) continue;
      problems.push(`${customer}: ${pushes.count} pushes up to "${pushes.lastName}", found ${JSON.stringify(found)}`);
      lost += Math.max(0, pushes.count - applied);
      appliedTwice += Math.max(0, applied - pushes.count, found.length - 1);
    }
    if (handled.size !== customers) problems.push(`${handled.size} customers were handled, ${customers} sent`);
    if (sent.storedIds.length !== customers * pushesEach)
      problems.push(`${sent.storedIds.length} CRM pushes have an id of their own, ${customers * pushesEach} sent`);
    return { lost, appliedTwice, plannedFailures: 0, problems };
  }
}

interface HandledPushes {
  readonly count: number;
  /** Of the push that arrived last: pushes are handled in the order in which they came. */
  readonly lastName: string | null;
}

async function handledPushes(database: Connection): Promise<Map<string, HandledPushes>> {
  const [rows] = await database.query(
    "SELECT body FROM message_log WHERE source = ? AND status = 'success' ORDER BY id",
    [crmSource],
  );
  const byCustomer = new Map<string, HandledPushes>();
  for (const { body } of rows as { body: Buffer }[]) {
    const { msgStr } = JSON.parse(body.toString()) as { msgStr: string };
    const { externalId, name } = JSON.parse(msgStr) as CrmProfile;
    byCustomer.set(externalId, { count: (byCustomer.get(externalId)?.count ?? 0) + 1, lastName: name });
  }
  return byCustomer;
}

interface StoredProfile {
  readonly name: string;
  readonly merged: number;
}

async function storedProfiles(database: Connection): Promise<Map<string, StoredProfile[]>> {
  const [rows] = await database.query('SELECT external_id, name, merged FROM demo_profile ORDER BY id');
  const byCustomer = new Map<string, StoredProfile[]>();
  for (const { external_id: customer, name, merged } of rows as (StoredProfile & { external_id: string })[])
    byCustomer.set(customer, [...(byCustomer.get(customer) ?? []), { name, merged }]);
  return byCustomer;
}
