/** Seconds. From a fast INSERT to a handler that goes on for minutes. */
const buckets = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300];

export interface MetricDefinition {
  readonly type: 'counter' | 'gauge' | 'histogram';
  readonly help: string;
  readonly labels: readonly string[];
  readonly buckets?: readonly number[];
  /** Read by the sampler when somebody scrapes. */
  readonly isSampled?: true;
}

const counter = (help: string, ...labels: string[]) => ({ type: 'counter', help, labels }) satisfies MetricDefinition;
const gauge = (help: string, ...labels: string[]) => ({ type: 'gauge', help, labels }) satisfies MetricDefinition;
const seconds = (help: string, ...labels: string[]) =>
  ({ type: 'histogram', help, labels, buckets }) satisfies MetricDefinition;
const sampled = (help: string, ...labels: string[]) =>
  ({ type: 'gauge', help, labels, isSampled: true }) satisfies MetricDefinition;

/** Every metric, with what it counts. docs/observability.md has the same table; a test compares them. */
export const metricDefinitions = {
  mailroom_inbox_received_total: counter('Pushes that came in, whatever became of them', 'source'),
  mailroom_inbox_intake_seconds: seconds('Time until a push was stored or known as a duplicate', 'source'),
  mailroom_inbox_stored_total: counter('Messages stored', 'source', 'type'),
  mailroom_inbox_duplicates_total: counter('Pushes of a message that was stored before', 'source', 'type'),
  mailroom_inbox_ignored_total: counter('Pushes that accept did not want', 'source'),
  mailroom_inbox_refused_total: counter('Pushes refused, by reason', 'source', 'reason'),
  mailroom_inbox_processed_total: counter('Attempts by outcome: success, retry, failed', 'source', 'type', 'outcome'),
  mailroom_inbox_handler_seconds: seconds('Duration of attempts', 'source', 'type', 'outcome'),
  mailroom_inbox_end_to_end_seconds: seconds('From the receipt of a message to its success', 'source', 'type'),
  mailroom_inbox_recovered_total: counter('Messages taken back from an owner that is gone', 'source', 'type', 'status'),
  mailroom_inbox_released_total: counter('Messages given back at a shutdown', 'source', 'type'),
  mailroom_inbox_claim_lost_total: counter('Claims lost while their message was in work', 'source', 'type'),
  mailroom_inbox_late_total: counter('Messages handled after one with a higher sequence', 'source', 'type'),
  mailroom_inbox_put_off_total: counter('Messages put off, by reason', 'source', 'type', 'reason'),
  mailroom_inbox_breaker_state: gauge('Breaker: 0 closed, 1 half-open, 2 open', 'source', 'type'),
  mailroom_inbox_intake_closed: gauge('1 while pushes are refused because too much waits', 'reason'),
  mailroom_backlog_alarm: gauge('1 while more waits than backlogAlarm allows', 'box'),
  mailroom_lease_lost_total: counter('Lanes lost while they were in work', 'lease'),
  mailroom_lease_renewal_seconds: seconds('Duration of lease renewals'),
  mailroom_lease_renewal_failures_total: counter('Renewals of a lease that did not get through', 'lease'),
  mailroom_inbox_round_seconds: seconds('Duration of rounds'),
  mailroom_inbox_round_failures_total: counter('Rounds that ended with an error'),
  mailroom_outbox_processed_total: counter('Sends by outcome: sent, retry, dead', 'topic', 'outcome'),
  mailroom_outbox_send_seconds: seconds('Duration of sends', 'topic', 'outcome'),
  mailroom_outbox_end_to_end_seconds: seconds('From the enqueueing of a message until it was sent', 'topic'),
  mailroom_outbox_parked_total: counter('Messages parked until their receiver is back', 'topic'),
  mailroom_outbox_released_total: counter('Messages given back at a shutdown', 'topic'),
  mailroom_outbox_claim_lost_total: counter('Claims lost while their message was being sent', 'topic'),
  mailroom_outbox_recovered_total: counter('Messages taken back from an owner that is gone', 'topic', 'status'),
  mailroom_outbox_put_off_total: counter('Messages put off, by reason', 'topic', 'reason'),
  mailroom_outbox_breaker_state: gauge('Breaker: 0 closed, 1 half-open, 2 open', 'transport'),
  mailroom_outbox_pass_seconds: seconds('Duration of passes of the relay'),
  mailroom_outbox_pass_failures_total: counter('Passes of the relay that ended with an error'),
  mailroom_purged_rows_total: counter('Rows taken out by retention', 'table'),
  mailroom_purge_failures_total: counter('Passes of the purge that ended with an error', 'table'),
  mailroom_messages: sampled('Messages in the table, each status counted up to 10,000', 'box', 'status'),
  mailroom_oldest_due_seconds: sampled('How long the oldest due message has been due; 0: none', 'box'),
  mailroom_waiting_later: sampled('Pending messages due later: retries, put off, delayed; up to 10,000', 'box'),
  mailroom_blocked_entities: sampled('Entities that hold messages back, of the first 1,000 held ones', 'box'),
  mailroom_oldest_failed_seconds: sampled('Since the oldest failed or dead message ended; 0: none', 'box'),
  mailroom_replay_runs: sampled('Replay runs that wait or are worked off', 'box'),
  mailroom_replay_left: sampled('Messages that are left of these runs', 'box'),
  mailroom_lanes_held: sampled('Lanes that this process holds', 'box'),
  mailroom_handlers_in_flight: sampled('Handlers, or sends, that run in this process', 'box'),
  mailroom_loop_age_seconds: sampled('Since the slowest loop last turned', 'box'),
  mailroom_sample_up: sampled('1 when the table could be asked for this scrape', 'box'),
} as const satisfies Readonly<Record<string, MetricDefinition>>;

export type MetricName = keyof typeof metricDefinitions;
