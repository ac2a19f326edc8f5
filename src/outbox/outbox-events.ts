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
      return { name: 'sent', ...factsOf(event), durationMs: event.durationMs };
    case 'retrying': {
      const { durationMs, errorKind, delayMs } = event;
      return { name: 'send-retrying', ...factsOf(event), durationMs, errorKind, delayMs };
    }
    case 'failed':
      return { name: 'dead', ...factsOf(event), durationMs: event.durationMs, errorKind: event.errorKind };
    case 'released':
      return { name: 'send-released', ...factsOf(event) };
    case 'claim-lost':
      return { name: 'send-lost', ...factsOf(event), reason: event.reason };
    case 'recovered':
      return { name: 'send-recovered', ...factsOf(event), status: event.status };
    case 'put-off':
      return { name: 'outbox-put-off', topic: event.type, count: event.count, reason: event.reason };
    case 'round':
      return { name: 'relay-pass', end: event.end, messages: event.messages, durationMs: event.durationMs };
    default:
      return event;
  }
}

function factsOf({ id, type, attempt }: { id: string; type: string; attempt: number }) {
  return { id, topic: type, attempt };
}
