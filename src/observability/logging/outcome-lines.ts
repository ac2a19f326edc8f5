import type { MailroomEventName, MailroomEventOf } from '../events.js';

/** One line of the log. */
export interface OutcomeLine {
  readonly level: 'log' | 'warn' | 'error';
  readonly msg: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

type Lines = { readonly [N in MailroomEventName]?: (event: MailroomEventOf<N>) => OutcomeLine };

type Received = MailroomEventOf<'stored'>;
type Handled = MailroomEventOf<'released'>;
type Outgoing = MailroomEventOf<'send-released'>;

const log = (msg: string, fields: object): OutcomeLine => ({ level: 'log', msg, fields: { ...fields } });
const warn = (msg: string, fields: object): OutcomeLine => ({ level: 'warn', msg, fields: { ...fields } });
const error = (msg: string, fields: object): OutcomeLine => ({ level: 'error', msg, fields: { ...fields } });

const received = ({ traceId, id, source, type, entity }: Omit<Received, 'name' | 'durationMs'>, status: string) => ({
  traceId,
  messageId: id,
  source,
  type,
  entity,
  status,
});

const handled = ({ traceId, id, source, type, entity, attempt }: Omit<Handled, 'name'>, status: string) => ({
  ...received({ traceId, id, source, type, entity }, status),
  attempt,
});

const outgoing = (event: Omit<Outgoing, 'name'>, status: string) => {
  const { traceId, messageId, id, topic, key, receiver, attempt } = event;
  return { traceId, messageId, id, topic, entity: key, receiver, status, attempt };
};

/** Events that say that all is well: told for a share of the traces, unless they were slow. */
export const sampledEvents: ReadonlySet<MailroomEventName> = new Set<MailroomEventName>([
  'stored',
  'duplicate',
  'ignored',
  'succeeded',
  'sent',
  'parked',
]);

/**
 * What is said of each event. Not said: rounds and renewals, which are counted; failures of a loop, which their loop tells
 * with the error.
 */
export const outcomeLines: Lines = {
  stored: (event) => log('a message was stored', { ...received(event, 'pending'), durationMs: event.durationMs }),
  duplicate: (event) => log('a message came again', { ...received(event, 'duplicate'), durationMs: event.durationMs }),
  ignored: ({ traceId, source }) => log('a push was not wanted', { traceId, source, status: 'ignored' }),
  succeeded: (event) => log('a message was handled', { ...handled(event, 'success'), durationMs: event.durationMs }),
  retrying: (event) => {
    const { durationMs, errorKind, delayMs } = event;
    return warn('an attempt failed', { ...handled(event, 'pending'), durationMs, errorKind, retryInMs: delayMs });
  },
  failed: (event) => {
    const { durationMs, errorKind } = event;
    return error('a message failed', { ...handled(event, 'failed'), durationMs, errorKind });
  },
  released: (event) => log('a message was given back', handled(event, 'pending')),
  'claim-lost': (event) =>
    warn('a claim was lost; another owner has the message', { ...handled(event, 'unknown'), reason: event.reason }),
  recovered: (event) => warn('a message was taken back from an owner that is gone', handled(event, event.status)),
  'intake-backlog': ({ reason, limit, state }) =>
    state === 'closed'
      ? warn('too much waits: pushes are refused', { reason, limit })
      : log('pushes are taken again', { reason, limit }),
  backlog: ({ state, box, messages, oldestDueMs }) =>
    state === 'raised'
      ? warn('too much has been waiting for too long', { box, messages, oldestDueMs })
      : log('what waited is done', { box, messages, oldestDueMs }),
  breaker: ({ source, type, state }) =>
    state === 'open'
      ? warn('a breaker opened', { source, type, state })
      : log('a breaker changed', { source, type, state }),
  'lease-lost': ({ lease, reason }) =>
    // Normal now and then; often it means that leases are too short, or that something blocks the event loop.
    warn('a lane was lost while it was in work; its message is done again', { lease, reason }),
  sent: (event) => log('a message was sent', { ...outgoing(event, 'sent'), durationMs: event.durationMs }),
  'send-retrying': (event) => {
    const { durationMs, errorKind, delayMs } = event;
    return warn('a send failed', { ...outgoing(event, 'pending'), durationMs, errorKind, retryInMs: delayMs });
  },
  dead: (event) => {
    const { durationMs, errorKind } = event;
    return error('a message is dead', { ...outgoing(event, 'dead'), durationMs, errorKind });
  },
  parked: (event) => log('a message waits for its receiver', outgoing(event, 'parked')),
  'send-released': (event) => log('a message was given back', outgoing(event, 'pending')),
  'send-lost': (event) =>
    warn('a claim was lost; another owner has the message', { ...outgoing(event, 'unknown'), reason: event.reason }),
  'send-recovered': (event) => {
    const status = event.status === 'failed' ? 'dead' : event.status;
    return warn('a message was taken back from an owner that is gone', outgoing(event, status));
  },
  'transport-breaker': ({ transport, state }) =>
    state === 'open' ? warn('a breaker opened', { transport, state }) : log('a breaker changed', { transport, state }),
};
