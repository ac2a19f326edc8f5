import type { MessageFacts } from '../delivery/index.js';
import type { MailroomEvent, MailroomEvents } from '../observability/index.js';

/** Tells the engine's events in the words of the outbox. */
export function outboxEvents(events: MailroomEvents): Pick<MailroomEvents, 'emit'> {
  return {
    emit(event) {
      const translated = translate(event);
      if (translated) events.emit(translated);
    },
  };
}

function translate(event: MailroomEvent): MailroomEvent | null {
  switch (event.name) {
    case 'succeeded':
      return { name: 'sent', ...outgoingFacts(event), durationMs: event.durationMs, ageMs: event.ageMs };
    case 'retrying': {
      const { durationMs, errorKind, delayMs } = event;
      return { name: 'send-retrying', ...outgoingFacts(event), durationMs, errorKind, delayMs };
    }
    case 'failed':
      return { name: 'dead', ...outgoingFacts(event), durationMs: event.durationMs, errorKind: event.errorKind };
    case 'released':
      return { name: 'send-released', ...outgoingFacts(event) };
    case 'claim-lost':
      return { name: 'send-lost', ...outgoingFacts(event), reason: event.reason };
    case 'recovered':
      return { name: 'send-recovered', ...outgoingFacts(event), status: event.status };
    case 'put-off':
      return { name: 'outbox-put-off', topic: event.type, count: event.count, reason: event.reason };
    case 'round':
      return { name: 'relay-pass', end: event.end, messages: event.messages, durationMs: event.durationMs };
    default:
      return event;
  }
}

/** What events tell of a message on its way out. */
export function outgoingFacts({ id, messageId = id, type, entity, receiver = null, attempt, traceId }: MessageFacts) {
  return { id, messageId, topic: type, key: entity, receiver, attempt, traceId };
}
