import type { EntityManager } from 'typeorm';
import { isConnectionError, isReadOnly, isRetryable } from '../database/index.js';
import { DatabaseUnavailableError } from '../errors/database-unavailable.error.js';
import { IntakeRefusedError } from '../errors/intake-refused.error.js';
import { MailroomError } from '../errors/mailroom.error.js';
import type { MailroomEvents, Trace, Tracing } from '../observability/index.js';
import type { ResolvedInboxOptions } from './inbox-options.js';
import type { Stored } from './intake.store.js';
import type { IntakeAdmission } from './intake-admission.js';
import { Ticket } from './intake-queue.js';
import type { IntakeSaving } from './intake-saving.js';
import { draftMessages, type MessageDraft } from './message-draft.js';
import { callOwn } from './own-function.js';
import { Push, type PushInput } from './push.js';
import type { Receipt } from './receipt.js';
import type { ResolvedSource } from './source-options.js';

export interface ReceiveOptions {
  /** Store within this manager's open transaction: the receipt is then only as good as that transaction's commit. */
  readonly manager?: EntityManager;
}

/** The way in: signature, acceptance, keys, one committed row per message, receipt. */
export class Intake {
  constructor(
    private readonly options: ResolvedInboxOptions,
    private readonly admission: IntakeAdmission,
    private readonly saving: IntakeSaving,
    private readonly events: MailroomEvents,
    private readonly tracing: Tracing,
    private readonly wake: (lane: number) => void,
  ) {}

  /** Pushes in work right now. */
  get pending(): number {
    return this.admission.pending;
  }

  /** New pushes are answered 503 from now on; those in work are finished. */
  drain(): void {
    this.admission.drain();
  }

  /**
   * For an endpoint, before it reads a body: nothing is taken in now.
   * @throws IntakeRefusedError draining or overloaded
   */
  checkPlace(name: string): void {
    this.place(name, () => this.admission.checkPlace(name));
  }

  /** The limit that an endpoint must enforce while it reads. */
  maxBodyBytes(source: string): number {
    return this.sourceOf(source).maxBodyBytes ?? this.options.intake.maxBodyBytes;
  }

  /**
   * Stores a push and returns its receipt, an array with `split`. Resolves only after the commit.
   * @throws IntakeRefusedError when nothing was stored, or when it is not known whether it was
   */
  async receive(
    name: string,
    input: PushInput,
    { manager }: ReceiveOptions = {},
  ): Promise<Receipt | readonly Receipt[]> {
    const leavePlace = this.place(name, () => this.admission.takePlace(name));
    try {
      const ticket = new Ticket();
      const known = Object.hasOwn(this.options.sources, name) ? name : 'unknown';
      const taken = this.tracing.receive(known, input.headers ?? {}, (trace) =>
        this.take(name, input, manager, ticket, trace),
      );
      return await (manager ? taken : this.inTime(taken, ticket));
    } catch (error) {
      throw this.refused(name, asRefusal(name, error));
    } finally {
      leavePlace();
    }
  }

  private place<T>(name: string, ask: () => T): T {
    try {
      return ask();
    } catch (error) {
      throw this.refused(name, asRefusal(name, error));
    }
  }

  private async take(
    name: string,
    input: PushInput,
    manager: EntityManager | undefined,
    ticket: Ticket,
    trace: Trace,
  ): Promise<Receipt | readonly Receipt[]> {
    const startedAt = performance.now();
    const source = this.sourceOf(name);
    const push = new Push(input);
    if (push.rawBody.length > this.maxBodyBytes(name)) {
      throw new IntakeRefusedError(
        'too-large',
        `source ${name}: the body has more than ${this.maxBodyBytes(name)} bytes`,
      );
    }
    await verifySignature(name, source, push);
    this.admission.askLeave(name, manager === undefined);
    const { accept } = source;
    if (accept && !callOwn(name, 'accept', () => accept(push))) {
      this.events.emit({ name: 'ignored', source: name, traceId: trace.traceId });
      return { id: null, duplicate: false, status: 'ignored' };
    }
    const { messages: drafts, isSplit } = draftMessages(name, source, push, { lanes: this.options.lanes, trace });
    const stored = await this.saving.save(drafts, manager, ticket);
    const receipts = stored.map((one, index) => this.receipt(drafts[index] as MessageDraft, one, startedAt));
    // With a manager the rows are not there yet; the next round finds them after the commit.
    if (!manager) for (const lane of new Set(drafts.map((draft) => draft.lane))) this.wake(lane);
    return isSplit ? receipts : (receipts[0] as Receipt);
  }

  private receipt(
    { source, type, traceId, entityKey }: MessageDraft,
    { id, duplicate }: Stored,
    startedAt: number,
  ): Receipt {
    const entity = entityKey?.toString('utf8') ?? null;
    const durationMs = performance.now() - startedAt;
    this.events.emit({ name: duplicate ? 'duplicate' : 'stored', source, type, id, traceId, entity, durationMs });
    return { id, duplicate, status: duplicate ? 'duplicate' : 'stored' };
  }

  private sourceOf(name: string): ResolvedSource {
    const source = Object.hasOwn(this.options.sources, name) ? this.options.sources[name] : undefined;
    if (!source)
      throw new IntakeRefusedError(
        'unknown-source',
        `there is no source ${JSON.stringify(name.slice(0, 64))} in inbox.sources`,
      );
    return source;
  }

  /** The sender must have its answer in time. A row that appears after it is found as a duplicate of the next push. */
  private inTime<T>(work: Promise<T>, ticket: Ticket): Promise<T> {
    const { ackTimeout } = this.options.intake;
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        ticket.withdraw();
        reject(new DatabaseUnavailableError(`no commit within ${ackTimeout} ms`));
      }, ackTimeout);
      work.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }

  private refused(source: string, error: IntakeRefusedError): IntakeRefusedError {
    const known = Object.hasOwn(this.options.sources, source) ? source : 'unknown';
    this.events.emit({ name: 'refused', source: known, refusal: error.refusal });
    return error;
  }
}

async function verifySignature(name: string, { verify }: ResolvedSource, push: Push): Promise<void> {
  if (!verify) return;
  const verdict = await verify.verify({ headers: push.headers, rawBody: push.signedBytes }, Date.now());
  // The reason is for the log of whoever sets the webhook up; an attacker learns nothing from it.
  if (!verdict.valid)
    throw new IntakeRefusedError('signature', `source ${name}: the signature was refused`, { cause: verdict.reason });
}

/** Any doubt is a 5xx, so that the sender pushes again; a 4xx says that the same push will never be taken. */
function asRefusal(name: string, error: unknown): IntakeRefusedError {
  if (error instanceof IntakeRefusedError) return error;
  const number = (error as { errno?: unknown } | null)?.errno;
  if ([1406, 1366, 1264, 3140, 3819, 4025].includes(Number(number))) {
    return new IntakeRefusedError('invalid', `source ${name}: a value does not fit its column`, { cause: error });
  }
  if (number === 1153 || number === 1301)
    return new IntakeRefusedError('too-large', `source ${name}: the row is larger than the server takes`, {
      cause: error,
    });
  const known = error instanceof MailroomError || isConnectionError(error) || isReadOnly(error) || isRetryable(error);
  const why = known ? 'the database is not available' : 'it could not be stored';
  return new IntakeRefusedError('unavailable', `source ${name}: ${why}; push it again`, { cause: error });
}
