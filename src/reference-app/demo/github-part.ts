import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import type { Connection } from 'mysql2/promise';
import type { Delivery, DemoPart, Sent, Verdict } from './demo-part.js';
import { githubHeaders } from './signing.js';

interface Example {
  readonly name: string;
  readonly examples: readonly unknown[];
}

/** Every example payload that GitHub's users contributed to `@octokit/webhooks-examples`, each as a delivery of its own. */
export class GithubPart implements DemoPart {
  readonly name = 'GitHub webhooks';
  readonly source = 'github';
  private readonly sentByType = new Map<string, number>();

  constructor(private readonly secret: string) {}

  deliveries(): readonly Delivery[] {
    const events = createRequire(import.meta.url)('@octokit/webhooks-examples') as readonly Example[];
    return events.flatMap(({ name, examples }) =>
      examples.map((payload) => {
        this.sentByType.set(name, (this.sentByType.get(name) ?? 0) + 1);
        const body = Buffer.from(JSON.stringify(payload));
        const id = randomUUID();
        return { chain: id, path: '/webhooks/github', headers: githubHeaders(this.secret, name, id, body), body };
      }),
    );
  }

  async verify(database: Connection, _sent: Sent): Promise<Verdict> {
    const [rows] = await database.query('SELECT type, events FROM demo_github_event');
    const counted = new Map((rows as { type: string; events: number }[]).map((row) => [row.type, row.events]));
    const problems: string[] = [];
    let lost = 0;
    let appliedTwice = 0;
    for (const type of new Set([...this.sentByType.keys(), ...counted.keys()])) {
      const difference = (counted.get(type) ?? 0) - (this.sentByType.get(type) ?? 0);
      if (difference === 0) continue;
      problems.push(`github ${type}: sent ${this.sentByType.get(type) ?? 0}, counted ${counted.get(type) ?? 0}`);
      if (difference < 0) lost -= difference;
      else appliedTwice += difference;
    }
    return { lost, appliedTwice, plannedFailures: 0, problems };
  }
}
