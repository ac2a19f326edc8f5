import { type Push, type SourceOptions, standardWebhooks } from '../../index.js';
import { type ContractEvent, contractEvent } from './contract-event.js';

export const contractSource = 'contracts';
export const contractType = 'contract.signed';

/** One event or a list of them; parsed once per event, then kept for the functions that follow. */
export function contractSourceOptions(secret: string): SourceOptions {
  const parsed = new WeakMap<object, ContractEvent>();
  const eventOf = (push: Push, item: unknown): ContractEvent => {
    const value: unknown = item ?? push.json;
    if (typeof value !== 'object' || value === null) return contractEvent(value);
    const event = parsed.get(value) ?? contractEvent(value);
    parsed.set(value, event);
    return event;
  };
  return {
    path: 'webhooks/contracts',
    verify: standardWebhooks({ secrets: [secret] }),
    split: (push) => (Array.isArray(push.json) ? push.json : null),
    type: contractType,
    // The webhook's id names the push, so it can stand for the event only where a push is one event.
    dedupKey: (push, item) => eventOf(push, item).msgId ?? (item === undefined ? push.header('webhook-id') : undefined),
    entityKey: (push, item) => eventOf(push, item).contractId,
  };
}
