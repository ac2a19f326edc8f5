/** What the demo found, in the order in which it is shown. */
export interface Report {
  readonly received: number;
  readonly duplicates: number;
  /** Pushes whose answer was lost with an instance, and which were pushed again. */
  readonly repeats: number;
  /** Messages that were stored although their push got no answer: success + failed = received - duplicates + these. */
  readonly storedUnanswered: number;
  readonly success: number;
  readonly failed: number;
  readonly plannedFailures: number;
  readonly retried: number;
  /** Instances that a message ended, and that the demo ended; each was started again. */
  readonly crashed: number;
  readonly killed: number;
  readonly unacknowledged: number;
  readonly unfinished: number;
  /** Messages of the outbox: sent, still waiting, given up. */
  readonly outboxSent: number;
  readonly outboxUnsent: number;
  readonly outboxDead: number;
  /** Frames that a chat client got again after a crash, and dropped by their id. */
  readonly outboxRepeats: number;
  /** Failed messages that were run again at the end, after their cause was mended; the figures above are from before. */
  readonly replayed: number;
  /** Rows of the adopted table's history that were consumed. */
  readonly fromHistory: number;
  readonly lost: number;
  readonly appliedTwice: number;
  /** Messages of the adopted table by status, its history left out */
  readonly statuses: Readonly<Record<string, number>>;
  readonly seconds: number;
  readonly problems: readonly string[];
}

/** True if every promise that the demo checks was kept. */
export function isGood(report: Report): boolean {
  const { lost, appliedTwice, failed, plannedFailures, unacknowledged, unfinished, problems } = report;
  const { outboxUnsent, outboxDead } = report;
  return (
    report.fromHistory === 0 &&
    lost === 0 &&
    appliedTwice === 0 &&
    failed === plannedFailures &&
    unacknowledged === 0 &&
    unfinished === 0 &&
    outboxUnsent === 0 &&
    outboxDead === 0 &&
    problems.length === 0
  );
}

/** The table at the end. */
export function table(report: Report): string {
  const rows: [string, string | number][] = [
    ['received', report.received],
    ['duplicates', report.duplicates],
    ['pushed again', report.repeats],
    ['stored without an answer', report.storedUnanswered],
    ['success', report.success],
    ['failed (planned)', `${report.failed} (${report.plannedFailures})`],
    ['retried', report.retried],
    ['instances crashed', report.crashed],
    ['instances killed', report.killed],
    ['replayed', report.replayed],
    ['outbox sent', report.outboxSent],
    ['outbox sent again', report.outboxRepeats],
    ['consumed from history', report.fromHistory],
    ['lost', report.lost],
    ['applied twice', report.appliedTwice],
    ...Object.entries(report.statuses).map(([status, count]): [string, number] => [`status ${status}`, count]),
    ['seconds', report.seconds.toFixed(1)],
  ];
  const wide = Math.max(...rows.map(([label]) => label.length));
  const lines = rows.map(([label, value]) => `  ${label.padEnd(wide)}  ${String(value).padStart(9)}`);
  const rule = `  ${'-'.repeat(wide + 11)}`;
  return [rule, ...lines, rule, ...report.problems.slice(0, 20).map((problem) => `  ! ${problem}`)].join('\n');
}
