import type { Connection } from 'mysql2/promise';
import type { ChatScene } from './chat-scene.js';
import { count, unfinished, unsent } from './count.js';
import type { DemoPart, Sent, Verdict } from './demo-part.js';
import type { Report } from './report.js';
import type { Supervisor } from './supervisor.js';

export interface Played {
  readonly sent: ReadonlyMap<DemoPart, Sent>;
  readonly chat: ChatScene;
  readonly supervisor: Supervisor;
  /** Instances that the demo killed itself. */
  readonly killed: number;
  readonly seconds: number;
}

/** Asks each part and the tables what became of everything that was sent. */
export async function outcomeOf(
  database: Connection,
  { sent, chat, supervisor, killed, seconds }: Played,
): Promise<Omit<Report, 'replayed' | 'fromHistory'>> {
  const verdicts: Verdict[] = [];
  const problems = [...supervisor.problems];
  let missing = 0;
  for (const [part, answers] of sent) {
    const verdict = await part.verify(database, answers);
    verdicts.push(verdict);
    problems.push(...verdict.problems);
    missing += await missingOf(database, answers.storedIds);
  }
  const talked = await chat.verify(database);
  problems.push(...talked.problems);
  const sum = (pick: (verdict: Verdict) => number) => verdicts.reduce((total, verdict) => total + pick(verdict), 0);
  const total = (pick: (answers: Sent) => number) =>
    [...sent.values()].reduce((all, answers) => all + pick(answers), 0);
  const [groups] = await database.query(
    "SELECT status, COUNT(*) AS n FROM message_log WHERE source <> '' GROUP BY status",
  );
  const statuses = Object.fromEntries(
    (groups as { status: string; n: number }[]).map(({ status, n }) => [status, Number(n)]),
  );
  const received = total((answers) => answers.pushes);
  const duplicates = total((answers) => answers.duplicates);
  const repeats = total((answers) => answers.repeats);
  const stored = Object.values(statuses).reduce((all, n) => all + n, 0);
  const storedUnanswered = stored - (received - duplicates);
  if (storedUnanswered < 0 || storedUnanswered > repeats)
    problems.push(
      `${stored} messages are stored after ${received} - ${duplicates} receipts and ${repeats} lost answers`,
    );
  const crashed = supervisor.ended - killed;
  const plannedCrashes = sum((verdict) => verdict.plannedCrashes ?? 0);
  if (crashed !== plannedCrashes)
    problems.push(`instances ended ${crashed} times by themselves, not ${plannedCrashes}`);
  if (killed !== 1) problems.push('no instance was killed on the way');
  return {
    received,
    duplicates,
    repeats,
    storedUnanswered,
    success: statuses.success ?? 0,
    failed: statuses.failed ?? 0,
    plannedFailures: sum((verdict) => verdict.plannedFailures),
    retried: await count(database, 'SELECT COUNT(*) AS n FROM message_log WHERE attempts > 1'),
    crashed,
    killed,
    unacknowledged: total((answers) => answers.unacknowledged),
    unfinished: await count(database, unfinished),
    statuses,
    outboxSent: await count(database, "SELECT COUNT(*) AS n FROM outbox_message WHERE status = 'sent'"),
    outboxUnsent: await count(database, unsent),
    outboxDead: await count(database, "SELECT COUNT(*) AS n FROM outbox_message WHERE status = 'dead'"),
    outboxRepeats: talked.repeats,
    lost: missing + talked.lost + sum((verdict) => verdict.lost),
    appliedTwice: sum((verdict) => verdict.appliedTwice),
    seconds,
    problems,
  };
}

/** Messages that were acknowledged but did not come to an end. */
async function missingOf(database: Connection, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  const found = await count(
    database,
    "SELECT COUNT(*) AS n FROM message_log WHERE id IN (?) AND status IN ('success', 'failed')",
    [ids],
  );
  return ids.length - found;
}
