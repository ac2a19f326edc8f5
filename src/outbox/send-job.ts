import {
  type Authority,
  ageMs,
  announceFailure,
  attemptFacts,
  type ClaimsInHand,
  type CompetingParts,
  type InHand,
  type JobEnd,
  outcomeOfFailure,
  storedTrace,
} from '../delivery/index.js';
import { HandlerTimeoutError } from '../errors/handler-timeout.error.js';
import { PermanentFailureError } from '../errors/permanent-failure.error.js';
import type { MailroomEvents, TracedAttempt, Tracing } from '../observability/index.js';
import { outgoingFacts } from './outbox-events.js';
import type { ResolvedOutboxOptions } from './outbox-options.js';
import type { ReceiverStore } from './receiver.store.js';
import type { RelayBox, Way } from './relay-box.js';
import type { TransportBreakers } from './transport-breakers.js';
import type { SendResult, Transport } from './transports/transport.js';

/** What the transport answered, or why it did not. */
type Answer =
  | { readonly kind: 'results'; readonly results: readonly SendResult[] }
  | { readonly kind: 'failed'; readonly error: unknown; readonly timedOut: boolean }
  | { readonly kind: 'given-up' };

/** Hands messages to a transport, with no transaction open meanwhile, and writes what came of each. */
export class SendJob {
  constructor(
    private readonly parts: CompetingParts,
    private readonly options: ResolvedOutboxOptions,
    private readonly box: RelayBox,
    private readonly breakers: TransportBreakers,
    private readonly receivers: ReceiverStore,
    private readonly hand: ClaimsInHand,
    private readonly events: MailroomEvents,
    private readonly tracing: Tracing,
  ) {}

  async run(job: readonly InHand[], way: Way, transport: Transport, deadline: AbortSignal): Promise<JobEnd> {
    const startedAt = performance.now();
    const call = this.breakers.begin(way.breaker);
    const messages = await Promise.all(job.map(({ candidate }) => this.box.load(candidate)));
    const wakeCounts = await this.wakeCountsOf(job);
    const answer = await this.tracing.attempt(tracedSend(job, messages, way), () =>
      this.send(transport, messages, job, deadline),
    );
    const durationMs = performance.now() - startedAt;
    call?.end(verdict(answer), durationMs);
    const settled = await Promise.all(
      job.map((message, at) => this.settle(message, resultAt(answer, at), wakeCounts, startedAt)),
    );
    for (const { permit } of job) permit.ended({ kind: 'returned' });
    return {
      closed: settled.flatMap((id) => (id === null ? [] : [id])),
      timedOut: answer.kind === 'failed' && answer.timedOut,
    };
  }

  /** Never rejects, and settles within sendTimeout whatever the transport does. */
  private async send(
    transport: Transport,
    messages: Parameters<Transport['send']>[0],
    job: readonly InHand[],
    deadline: AbortSignal,
  ): Promise<Answer> {
    const { sendTimeout } = this.options;
    const abort = new AbortController();
    // Of one message the claim is the send's own; of many, one that is lost must not stop the others.
    const [only] = job;
    const outer = job.length === 1 && only ? AbortSignal.any([deadline, only.claim.lost.signal]) : deadline;
    let timer: NodeJS.Timeout | undefined;
    let onOuter: (() => void) | undefined;
    try {
      return await Promise.race([
        this.call(transport, messages, abort.signal),
        new Promise<Answer>((resolve) => {
          timer = setTimeout(() => {
            const error = new HandlerTimeoutError(sendTimeout);
            resolve({ kind: 'failed', error, timedOut: true });
            abort.abort(error);
          }, sendTimeout);
          onOuter = () => {
            resolve({ kind: 'given-up' });
            abort.abort(outer.reason);
          };
          outer.addEventListener('abort', onOuter, { once: true });
          if (outer.aborted) onOuter();
        }),
      ]);
    } finally {
      clearTimeout(timer);
      if (onOuter) outer.removeEventListener('abort', onOuter);
    }
  }

  private async call(
    transport: Transport,
    messages: Parameters<Transport['send']>[0],
    signal: AbortSignal,
  ): Promise<Answer> {
    try {
      const results = await transport.send(messages, { signal });
      if (!Array.isArray(results) || results.length !== messages.length) {
        const got = Array.isArray(results) ? `${results.length} results` : 'no list of results';
        throw new Error(`transport ${transport.name} returned ${got} for ${messages.length} messages`);
      }
      return { kind: 'results', results };
    } catch (error) {
      return { kind: 'failed', error, timedOut: false };
    }
  }

  private async wakeCountsOf(job: readonly InHand[]): Promise<ReadonlyMap<string, string>> {
    if (this.options.offline === 'retry') return new Map();
    const receivers = new Map(job.flatMap((message) => receiverOf(message).map((one) => [one.toString('hex'), one])));
    return this.receivers.wakeCounts([...receivers.values()]);
  }

  /** Writes what came of one message; its id when it does not hold back its order unit any more. */
  private async settle(
    message: InHand,
    result: SendResult | 'given-up',
    wakeCounts: ReadonlyMap<string, string>,
    startedAt: number,
  ): Promise<string | null> {
    // Heartbeats stop before the mark: both write the same row.
    this.hand.drop(message.claim.id);
    if (result === 'given-up') return this.giveBack(message);
    switch (result.status) {
      case 'sent':
        return this.markSent(message, startedAt);
      case 'offline':
        return this.offline(message, wakeCounts, startedAt, result.recheckMs);
      case 'retry':
        return this.fail(message, result.error, startedAt, result.delayMs);
      case 'dead':
        return this.fail(message, permanent(result.error), startedAt);
      default:
        return this.fail(message, new Error('the transport returned a result of an unknown status'), startedAt);
    }
  }

  private async markSent(message: InHand, startedAt: number): Promise<string | null> {
    const { claim, candidate } = message;
    let written = await this.parts.successes.succeed(claim);
    if (written === 'unknown') {
      const success = { claim, outcome: { kind: 'success' }, park: false } as const;
      written = (await this.parts.writer.write(this.authority(message), success, null)).written;
    }
    if (!written) return this.lost(message);
    const durationMs = performance.now() - startedAt;
    this.parts.events.emit({ name: 'succeeded', ...attemptFacts(candidate), durationMs, ageMs: ageMs(candidate) });
    return claim.id;
  }

  private async fail(message: InHand, error: unknown, startedAt: number, delayMs?: number): Promise<string | null> {
    const { claim, candidate, attempt, handler } = message;
    const decided = outcomeOfFailure(error, attempt, handler.policy);
    const outcome =
      decided.kind === 'retry' && delayMs !== undefined ? { ...decided, delayMs: bounded(delayMs) } : decided;
    const { written } = await this.parts.writer.write(this.authority(message), { claim, outcome, park: false }, null);
    if (!written) return this.lost(message);
    announceFailure(this.parts.events, candidate, outcome, performance.now() - startedAt);
    return outcome.kind === 'failed' ? claim.id : null;
  }

  private async offline(
    message: InHand,
    wakeCounts: ReadonlyMap<string, string>,
    startedAt: number,
    recheckMs?: number,
  ): Promise<string | null> {
    const { claim, candidate } = message;
    const [receiver] = receiverOf(message);
    if (!receiver || this.options.offline === 'retry')
      return this.fail(message, Object.assign(new Error('the receiver is offline'), { code: 'offline' }), startedAt);
    const { parkRecheck, parkExpiry } = this.options;
    const came = await this.receivers.park(claim, wakeCounts.get(receiver.toString('hex')) ?? '0', {
      recheckMs: recheckMs === undefined ? parkRecheck : bounded(recheckMs),
      expiryMs: parkExpiry,
    });
    if (came === 'parked') {
      this.events.emit({ name: 'parked', ...outgoingFacts(attemptFacts(candidate)) });
      return null;
    }
    // It connected meanwhile: sent again at once.
    return came === 'woken' ? this.giveBack(message) : this.lost(message);
  }

  /** Due at once, the attempt taken off again. A message that is not ours any more stays as it is. */
  private async giveBack(message: InHand): Promise<null> {
    const released = { claim: message.claim, outcome: { kind: 'released' }, park: false } as const;
    const { written } = await this.parts.writer.write(this.authority(message), released, null);
    if (!written) return this.lost(message);
    this.parts.events.emit({ name: 'released', ...attemptFacts(message.candidate) });
    return null;
  }

  private lost({ candidate }: InHand): null {
    this.parts.events.emit({ name: 'claim-lost', ...attemptFacts(candidate), reason: 'its outcome changed no row' });
    return null;
  }

  private authority({ claim }: InHand): Authority {
    return {
      isHeld: () => claim.isHeld(),
      get signal() {
        return claim.lost.signal;
      },
      complete: (send, completion) => this.parts.store.complete(send, completion),
    };
  }
}

function tracedSend(job: readonly InHand[], messages: Parameters<Transport['send']>[0], way: Way): TracedAttempt {
  return {
    box: 'outbox',
    operation: 'send',
    destination: way.name,
    type: messages[0]?.topic ?? '',
    messages: job.map(({ candidate, attempt }) => ({
      id: candidate.id,
      messageId: candidate.message_id ?? candidate.id,
      attempt,
      trace: storedTrace(candidate),
    })),
  };
}

function receiverOf({ candidate }: InHand): Buffer[] {
  const { receiver } = candidate;
  return Buffer.isBuffer(receiver) ? [receiver] : [];
}

function resultAt(answer: Answer, at: number): SendResult | 'given-up' {
  if (answer.kind === 'given-up') return 'given-up';
  if (answer.kind === 'failed') return { status: 'retry', error: answer.error };
  return answer.results[at] ?? { status: 'retry', error: new Error('the transport returned no result') };
}

/** A receiver that is offline or at fault, or a message that can never be sent, says nothing about the transport. */
function verdict(answer: Answer): 'success' | 'failure' | 'neutral' {
  if (answer.kind === 'failed') return 'failure';
  if (answer.kind === 'given-up') return 'neutral';
  if (answer.results.some(({ status }) => status === 'sent')) return 'success';
  const isFailure = (result: SendResult) => result.status === 'retry' && result.fault !== 'receiver';
  return answer.results.some(isFailure) ? 'failure' : 'neutral';
}

function permanent(error: unknown): PermanentFailureError {
  if (error instanceof PermanentFailureError) return error;
  const { code, kind } = (error ?? {}) as { code?: unknown; kind?: unknown };
  const name = typeof kind === 'string' ? kind : typeof code === 'string' ? code : 'rejected';
  return new PermanentFailureError(error instanceof Error ? error.message : String(error), { kind: name });
}

const longestDelayMs = 30 * 86_400_000;

function bounded(delayMs: number): number {
  return Number.isFinite(delayMs) ? Math.min(longestDelayMs, Math.max(0, delayMs)) : 60_000;
}
