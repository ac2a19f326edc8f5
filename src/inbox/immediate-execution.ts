import { setTimeout as sleep } from 'node:timers/promises';
import {
  announceRecovered,
  type Candidate,
  HandlerTransaction,
  type LaneHandler,
  type LaneParts,
  type Permit,
  type Recovered,
  runAttempt,
} from '../delivery/index.js';
import { ConflictError } from '../errors/conflict.error.js';
import { HandlerRegistrationError } from '../errors/handler-registration.error.js';
import { IntakeRefusedError } from '../errors/intake-refused.error.js';
import type { Lease, LeaseKeeper } from '../lease/index.js';
import type { Tracing } from '../observability/index.js';
import type { StoredMessage } from './inbox-message.js';
import type { ResolvedInboxOptions } from './inbox-options.js';
import { draftMessages, type MessageDraft } from './message-draft.js';
import { callOwn } from './own-function.js';
import { Push, type PushInput } from './push.js';
import type { ResolvedSource } from './source-options.js';

export interface ExecuteOptions {
  /** False: runs beside the consumer of the lane. Default true: no consumer of the lane commits meanwhile. */
  readonly serialize?: boolean;
}

/** What became of a push that was executed at once. */
export interface Executed {
  /** `ignored`: the source's `accept` did not want it. */
  readonly status: 'executed' | 'ignored';
  /** How many messages were handled: 0, 1, or as many as `split` gave. */
  readonly messages: number;
}

/** Longer, and a sender's own time runs out; shorter, and a lane that is busy with quick messages is never met free. */
const longestWaitMs = 2_000;
const pollMs = 40;
/** Stored messages have ids from 1 on. */
const notStored = '0';

/** Handles a push now, in its handler's transaction, and stores no row. */
export class ImmediateExecution {
  private readonly deadline = new AbortController();
  private readonly running = new Set<Promise<unknown>>();
  private draining = false;

  constructor(
    private readonly options: ResolvedInboxOptions,
    private readonly parts: LaneParts,
    /** A keeper with an owner of its own: this instance's consumer is as foreign to it as any other. */
    private readonly newKeeper: () => LeaseKeeper,
    private readonly wake: (lane: number) => void,
    private readonly tracing: Tracing,
  ) {}

  execute(name: string, input: PushInput, { serialize = true }: ExecuteOptions = {}): Promise<Executed> {
    const work = this.take(name, input, serialize);
    this.running.add(work);
    const done = () => this.running.delete(work);
    work.then(done, done);
    return work;
  }

  /** Takes nothing more; what runs is given up after `graceMs`. */
  async stop(graceMs: number): Promise<void> {
    this.draining = true;
    const timer = setTimeout(() => this.deadline.abort(new Error('the shutdown deadline has passed')), graceMs);
    await Promise.allSettled(this.running);
    clearTimeout(timer);
  }

  private async take(name: string, input: PushInput, serialize: boolean): Promise<Executed> {
    if (this.draining) throw new IntakeRefusedError('draining', 'this instance is stopping');
    const source = Object.hasOwn(this.options.sources, name) ? this.options.sources[name] : undefined;
    if (!source)
      throw new IntakeRefusedError(
        'unknown-source',
        `there is no source ${JSON.stringify(name.slice(0, 64))} in inbox.sources`,
      );
    const push = new Push(input);
    if (!(await admits(name, source, push, source.maxBodyBytes ?? this.options.intake.maxBodyBytes)))
      return { status: 'ignored', messages: 0 };
    const { messages } = draftMessages(name, source, push, {
      lanes: this.options.lanes,
      trace: this.tracing.arriving(push.headers),
    });
    for (const draft of messages) {
      if (serialize) await this.inLane(draft);
      else await this.run(draft, null);
    }
    return { status: 'executed', messages: messages.length };
  }

  private async inLane(draft: MessageDraft): Promise<void> {
    const lease = await this.takeLane(draft.lane);
    try {
      await this.run(draft, lease);
    } finally {
      await lease.release();
      this.wake(draft.lane);
    }
  }

  private async takeLane(lane: number): Promise<Lease> {
    const keeper = this.newKeeper();
    const giveUpAt = performance.now() + longestWaitMs;
    for (;;) {
      let recovered: readonly Recovered[] = [];
      const entrance = await keeper.enter(this.parts.leaseName(lane));
      const lease = await entrance?.take({
        maxHoldMs: 2_147_000_000,
        onTaken: async (tx) => {
          recovered = await this.parts.recovery.recoverLane(tx, lane);
        },
      });
      if (lease) {
        await announceRecovered(recovered, this.parts);
        return lease;
      }
      if (performance.now() >= giveUpAt || this.draining)
        throw new ConflictError(
          `lane ${lane} is busy or its lease cannot be asked for: try again in a moment, push it to be stored, or set serialize: false`,
        );
      await sleep(pollMs);
    }
  }

  private async run(draft: MessageDraft, lease: Lease | null): Promise<void> {
    const { handler, permit } = this.admitted(draft);
    const leave = this.parts.solitude.tryEnter();
    if (!leave) {
      permit.giveBack();
      throw new ConflictError('a message that ended its process before runs alone in this instance: try again later');
    }
    const session = this.parts.newSession();
    try {
      const interrupted = lease ? AbortSignal.any([lease.signal, this.deadline.signal]) : this.deadline.signal;
      const tx = new LazyTransaction(() => new HandlerTransaction(this.parts.dataSource, session));
      const end = await runAttempt(
        (abort) =>
          handler.invoke(candidateOf(draft), {
            get signal() {
              return abort.signal;
            },
            attempt: 1,
            started: () => permit.started(),
            manager: () => tx.opened().manager,
          }),
        handler.timeoutMs,
        interrupted,
      );
      permit.ended(end);
      switch (end.kind) {
        case 'returned':
          return await commit(tx.current, lease);
        case 'threw':
          await tx.current?.rollback('the handler threw');
          throw end.error;
        case 'timed-out':
          tx.current?.doom('the handler timed out');
          throw end.error;
        case 'interrupted':
          tx.current?.doom('the execution was interrupted');
          throw new ConflictError('the lane was lost or this instance stops: nothing was committed, try again');
      }
    } finally {
      leave();
      await session.close();
    }
  }

  private admitted({ source, type }: MessageDraft): { readonly handler: LaneHandler; readonly permit: Permit } {
    const readiness = this.parts.box.readiness(source, type);
    switch (readiness.kind) {
      case 'ready':
        return { handler: readiness.handler, permit: readiness.permit() };
      case 'unknown':
        throw new HandlerRegistrationError(
          'InboxService.execute',
          `no handler of this instance takes type '${type}' of source '${source}'`,
        );
      case 'paused':
        throw new ConflictError(`type '${type}' of source '${source}' is paused in this instance: resume it first`);
      case 'closed-off':
        throw new ConflictError(
          `type '${type}' of source '${source}' is not handled now, ${readiness.reason}: try again in ${readiness.retryInMs} ms`,
        );
    }
  }
}

/** The transaction of one execution, made when the handler first asks for it. */
class LazyTransaction {
  current: HandlerTransaction | undefined;

  constructor(private readonly make: () => HandlerTransaction) {}

  opened(): HandlerTransaction {
    this.current ??= this.make();
    return this.current;
  }
}

/**
 * Commits what the handler wrote, if the lane is still ours.
 * Locks: the lane's lease row by primary key, shared, until the commit. Prevents: a commit beside a holder that replaced us.
 */
async function commit(tx: HandlerTransaction | undefined, lease: Lease | null): Promise<void> {
  if (!tx?.isOpen) return;
  try {
    await tx.assertInTransaction();
    if (lease) {
      const held = await tx.rows(
        `SELECT name FROM mailroom_lease
          WHERE name = ? AND fence = ? AND owner = ? AND held_until > UTC_TIMESTAMP(3) LOCK IN SHARE MODE`,
        [lease.name, lease.fence, lease.owner],
      );
      if (held.length === 0 || !lease.isHeld())
        throw new ConflictError('the lane was lost before the commit: nothing was committed, try again');
    }
    await tx.commit();
  } catch (error) {
    await tx.rollback('it could not be committed');
    throw error;
  }
}

/** As intake does: size and signature are refused, false when the source does not want the push. */
async function admits(name: string, source: ResolvedSource, push: Push, maxBodyBytes: number): Promise<boolean> {
  if (push.rawBody.length > maxBodyBytes)
    throw new IntakeRefusedError('too-large', `source ${name}: the body has more than ${maxBodyBytes} bytes`);
  const verdict = await source.verify?.verify({ headers: push.headers, rawBody: push.signedBytes }, Date.now());
  if (verdict && !verdict.valid)
    throw new IntakeRefusedError('signature', `source ${name}: the signature was refused`, { cause: verdict.reason });
  return callOwn(name, 'accept', () => source.accept?.(push) ?? true);
}

function candidateOf(draft: MessageDraft): Candidate & StoredMessage {
  return {
    id: notStored,
    source: draft.source,
    type: draft.type,
    attempts: '0',
    error_kind: null,
    open: null,
    previous: null,
    next_status: null,
    due: '',
    dedup_key: draft.dedupKey,
    entity_key: draft.entityKey,
    sequence: draft.sequence,
    headers: draft.headers,
    content_type: draft.contentType,
    body: draft.body,
    received_at: null,
    replay_count: '0',
  };
}
