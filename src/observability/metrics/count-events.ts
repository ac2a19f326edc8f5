import type { MailroomEventName, MailroomEventOf, MailroomEvents } from '../events.js';
import type { MetricWriter } from './shared-metrics.js';

type Rules = { readonly [N in MailroomEventName]?: (event: MailroomEventOf<N>) => void };

const breakerState = { closed: 0, 'half-open': 1, open: 2 } as const;

/** Counts what happens. Returns the function that ends it. */
export function countEvents(events: MailroomEvents, metrics: MetricWriter): () => void {
  const rules = rulesOf(metrics);
  const names = Object.keys(rules) as (keyof typeof rules)[];
  const ends = names.map((name) => subscribe(events, name, rules));
  return () => {
    for (const end of ends) end();
  };
}

function subscribe<N extends MailroomEventName>(events: MailroomEvents, name: N, rules: Rules): () => void {
  return events.on(name, (event) => rules[name]?.(event));
}

function rulesOf(metrics: MetricWriter) {
  const attempt = (
    { source, type, durationMs }: { source: string; type: string; durationMs: number },
    outcome: 'success' | 'retry' | 'failed',
  ) => {
    metrics.count('mailroom_inbox_processed_total', { source, type, outcome });
    metrics.observeMs('mailroom_inbox_handler_seconds', { source, type, outcome }, durationMs);
  };
  const send = ({ topic, durationMs }: { topic: string; durationMs: number }, outcome: 'sent' | 'retry' | 'dead') => {
    metrics.count('mailroom_outbox_processed_total', { topic, outcome });
    metrics.observeMs('mailroom_outbox_send_seconds', { topic, outcome }, durationMs);
  };
  const taken = (source: string, durationMs: number) => {
    metrics.count('mailroom_inbox_received_total', { source });
    metrics.observeMs('mailroom_inbox_intake_seconds', { source }, durationMs);
  };
  return {
    stored: ({ source, type, durationMs }) => {
      metrics.count('mailroom_inbox_stored_total', { source, type });
      taken(source, durationMs);
    },
    duplicate: ({ source, type, durationMs }) => {
      metrics.count('mailroom_inbox_duplicates_total', { source, type });
      taken(source, durationMs);
    },
    ignored: ({ source }) => {
      metrics.count('mailroom_inbox_ignored_total', { source });
      metrics.count('mailroom_inbox_received_total', { source });
    },
    refused: ({ source, refusal }) => {
      metrics.count('mailroom_inbox_refused_total', { source, reason: refusal });
      metrics.count('mailroom_inbox_received_total', { source });
    },
    'intake-backlog': ({ reason, state }) =>
      metrics.set('mailroom_inbox_intake_closed', { reason }, state === 'closed' ? 1 : 0),
    backlog: ({ box, state }) => metrics.set('mailroom_backlog_alarm', { box }, state === 'raised' ? 1 : 0),
    succeeded: (event) => {
      attempt(event, 'success');
      const { source, type, ageMs } = event;
      if (ageMs !== null) metrics.observeMs('mailroom_inbox_end_to_end_seconds', { source, type }, ageMs);
    },
    retrying: (event) => attempt(event, 'retry'),
    failed: (event) => attempt(event, 'failed'),
    late: ({ source, type }) => metrics.count('mailroom_inbox_late_total', { source, type }),
    released: ({ source, type }) => metrics.count('mailroom_inbox_released_total', { source, type }),
    'claim-lost': ({ source, type }) => metrics.count('mailroom_inbox_claim_lost_total', { source, type }),
    recovered: ({ source, type, status }) => metrics.count('mailroom_inbox_recovered_total', { source, type, status }),
    'put-off': ({ source, type, reason, count }) =>
      metrics.count('mailroom_inbox_put_off_total', { source, type, reason }, count),
    breaker: ({ source, type, state }) =>
      metrics.set('mailroom_inbox_breaker_state', { source, type }, breakerState[state]),
    'lease-lost': ({ lease }) => metrics.count('mailroom_lease_lost_total', { lease }),
    'lease-renewed': ({ tookMs }) => metrics.observeMs('mailroom_lease_renewal_seconds', {}, tookMs),
    'lease-renewal-failed': ({ lease }) => metrics.count('mailroom_lease_renewal_failures_total', { lease }),
    round: ({ durationMs }) => metrics.observeMs('mailroom_inbox_round_seconds', {}, durationMs),
    'round-failed': () => metrics.count('mailroom_inbox_round_failures_total', {}),
    sent: (event) => {
      send(event, 'sent');
      const { topic, ageMs } = event;
      if (ageMs !== null) metrics.observeMs('mailroom_outbox_end_to_end_seconds', { topic }, ageMs);
    },
    'send-retrying': (event) => send(event, 'retry'),
    dead: (event) => send(event, 'dead'),
    parked: ({ topic }) => metrics.count('mailroom_outbox_parked_total', { topic }),
    'send-released': ({ topic }) => metrics.count('mailroom_outbox_released_total', { topic }),
    'send-lost': ({ topic }) => metrics.count('mailroom_outbox_claim_lost_total', { topic }),
    'send-recovered': ({ topic, status }) => metrics.count('mailroom_outbox_recovered_total', { topic, status }),
    'outbox-put-off': ({ topic, reason, count }) =>
      metrics.count('mailroom_outbox_put_off_total', { topic, reason }, count),
    'transport-breaker': ({ transport, state }) =>
      metrics.set('mailroom_outbox_breaker_state', { transport }, breakerState[state]),
    'relay-pass': ({ durationMs }) => metrics.observeMs('mailroom_outbox_pass_seconds', {}, durationMs),
    'relay-failed': () => metrics.count('mailroom_outbox_pass_failures_total', {}),
    purged: ({ table, rows }) => metrics.count('mailroom_purged_rows_total', { table }, rows),
    'purge-failed': ({ table }) => metrics.count('mailroom_purge_failures_total', { table }),
  } satisfies Rules;
}
