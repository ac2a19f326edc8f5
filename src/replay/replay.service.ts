import type { ControlPool, Row } from '../database/index.js';
import {
  inboxRunBoxOf,
  type Preview,
  type Run,
  type RunBox,
  RunStore,
  type Selection,
  tableOf,
} from '../delivery/runs/index.js';
import { EditRefusedError } from '../errors/edit-refused.error.js';
import { InvalidSelectionError } from '../errors/invalid-selection.error.js';
import { type MessageLine, MessageLooks, type MessageView, runBoxOf } from './message-view.js';
import { type ResolvedReplayOptions, rate } from './replay-options.js';

/** What to take, and of which box. Default: the inbox. */
export interface ReplaySelection extends Selection {
  readonly box?: 'inbox' | 'outbox';
}

/** How a run goes, and for the record who wants it and why. */
export interface ReplayRequest {
  /** 1 to 128 characters. */
  readonly actor: string;
  /** 1 to 500 characters. */
  readonly reason: string;
  /** Messages per second; it begins with a tenth and has its full rate after 5 s. Default: the module's, 10. */
  readonly ratePerSecond?: number;
  /**
   * A run goes in order of arrival, and an entity's messages are handled in order, either way. True: those without an entity
   * are handled one after the other, too, each after the retries of the one before it. Mode `competing` knows no order.
   * Default false.
   */
  readonly keepOrder?: boolean;
}

/** A message in the place of one that ended. */
export interface EditRequest {
  readonly box?: 'inbox' | 'outbox';
  /** Text is stored as UTF-8. At most 1 MiB; the content type stays. */
  readonly body: string | Buffer;
  /** 1 to 128 characters. */
  readonly actor: string;
  /** 1 to 500 characters. */
  readonly reason: string;
}

/** The record of an edit, and the message that it made. */
export interface Edited {
  readonly runId: string;
  readonly messageId: string;
}

/** What became of one message of a run; null: its turn has not come. */
export interface RunItem {
  readonly messageId: string;
  readonly outcome: 'requeued' | 'discarded' | 'skipped' | 'refused' | null;
  readonly detail: string | null;
  readonly at: string | null;
}

const countTo = 10_000;
const mostOnPage = 200;
/** Below what each server takes in one packet by default. */
const mostBodyBytes = 1_048_576;

/** See what failed, choose, and run it again, with a record. Exported by `ReplayModule`. */
export class ReplayService {
  private readonly inbox: RunBox;
  private readonly looks: MessageLooks;
  private readonly stores: Readonly<Record<'inbox' | 'outbox', RunStore>>;

  constructor(
    private readonly pool: ControlPool,
    private readonly options: ResolvedReplayOptions,
    private readonly onStarted: () => void,
  ) {
    this.looks = new MessageLooks(pool);
    this.inbox = inboxRunBoxOf(tableOf(options.inboxTable));
    this.stores = { inbox: new RunStore(pool, this.inbox), outbox: new RunStore(pool, this.boxOf('outbox')) };
  }

  /**
   * What a selection means now: counted up to 10,000, in groups of type and kind of error with an example each. No bodies.
   * @throws InvalidSelectionError naming the field
   */
  preview({ box, ...selection }: ReplaySelection): Promise<Preview> {
    return this.storeOf(box).preview(selection, countTo);
  }

  /**
   * Starts a run; its messages are written down now, so that one which fails later is not swept in. It is worked off by
   * any instance, goes on after a crash, and can be cancelled. Each message is archived as it was, and then due at once
   * with all its retries before it.
   * @throws InvalidSelectionError for an empty selection without `all: true`, or more than 100,000 messages
   * @throws OverlappingRunError with the id of another run that has some of them
   */
  start(selection: ReplaySelection, request: ReplayRequest): Promise<Run> {
    return this.begin('replay', selection, request);
  }

  /** As `start`, but takes the messages out of the table, into the archive. What waited behind them goes on. */
  discard(selection: ReplaySelection, request: ReplayRequest): Promise<Run> {
    return this.begin('discard', selection, request);
  }

  /**
   * Puts a new message with another body in the place of one that ended. The old one goes into the archive; the new one is due
   * at once, has its keys, also the dedup key, and its id as `replay_of`. It is the last one of its entity.
   * @throws EditRefusedError unless the option `edit` is set, and for a message that is not there or has not ended
   * @throws OverlappingRunError with the id of a run that has the message before it
   */
  async edit(id: string, request: EditRequest): Promise<Edited> {
    const messageId = idOf(id);
    refuseUnknown(request, ['box', 'body', 'actor', 'reason']);
    const { box, body, actor, reason } = request;
    if (!this.options.edit) throw new EditRefusedError(messageId, 'the option edit of ReplayModule is not set', 'off');
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    if (!Buffer.isBuffer(bytes) || bytes.length > mostBodyBytes)
      throw new InvalidSelectionError('body', `write text, or bytes, of at most ${mostBodyBytes} bytes`);
    const maxReplays = this.options.maxReplays === false ? null : this.options.maxReplays;
    const edit = { id: messageId, body: bytes, reason: words('reason', reason, 500), maxReplays };
    return this.storeOf(box).edit(edit, words('actor', actor, 128));
  }

  /** Null: there is no such run. */
  async get(id: string): Promise<Run | null> {
    const run = idOf(id);
    return (await this.stores.inbox.get(run)) ?? (await this.stores.outbox.get(run));
  }

  /** The newest first. `before`: id of the last one of the page before. */
  list({
    box,
    limit = 50,
    before,
  }: {
    box?: 'inbox' | 'outbox';
    limit?: number;
    before?: string;
  } = {}): Promise<Run[]> {
    return this.storeOf(box).list(pageSize(limit), before === undefined ? null : idOf(before));
  }

  /** Messages of a run in order of their ids, after `after`. */
  async items(id: string, { after = '0', limit = 100 }: { after?: string; limit?: number } = {}): Promise<RunItem[]> {
    const rows = await this.pool.rows<
      Row & { id: string; outcome: RunItem['outcome']; detail: string | null; at: string | null }
    >(
      `SELECT CAST(i.message_id AS CHAR) AS id, i.outcome, i.detail, CAST(i.outcome_at AS CHAR) AS at FROM replay_item i
        WHERE i.run_id = ? AND i.message_id > ? ORDER BY i.message_id LIMIT ${pageSize(limit)}`,
      [idOf(id), after === '0' ? '0' : idOf(after)],
    );
    return rows.map(({ id: messageId, outcome, detail, at }) => ({ messageId, outcome, detail, at }));
  }

  /** False: it had ended, or there is none. What it did so far stays. */
  async cancel(id: string): Promise<boolean> {
    const run = await this.get(id);
    return run !== null && this.stores[run.box].cancel(run.id);
  }

  /** A cancelled run goes on with what it had not done. False: it was not cancelled. @throws OverlappingRunError */
  async resume(id: string): Promise<boolean> {
    const run = await this.get(id);
    const resumed = run !== null && (await this.stores[run.box].resume(run.id));
    if (resumed) this.onStarted();
    return resumed;
  }

  /** Messages in order of their ids, after `after`; at most 200. */
  messages(
    { box, ...selection }: ReplaySelection,
    { after = '0', limit = 50 }: { after?: string; limit?: number } = {},
  ): Promise<MessageLine[]> {
    return this.looks.page(selection, this.boxOf(box), after === '0' ? '0' : idOf(after), pageSize(limit));
  }

  /** One message, its body decoded and redacted, with its earlier lives. Null: there is none. */
  message(id: string, box?: 'inbox' | 'outbox'): Promise<MessageView | null> {
    return this.looks.one(idOf(id), this.boxOf(box), this.options.redact);
  }

  /** The stores, for the worker. */
  get runs(): readonly RunStore[] {
    return [this.stores.inbox, this.stores.outbox];
  }

  private async begin(
    action: 'replay' | 'discard',
    { box, ...selection }: ReplaySelection,
    request: ReplayRequest,
  ): Promise<Run> {
    const store = this.storeOf(box);
    refuseUnknown(request, ['actor', 'reason', 'ratePerSecond', 'keepOrder']);
    const { ratePerSecond = this.options.ratePerSecond, keepOrder = false } = request;
    if (typeof keepOrder !== 'boolean') throw new InvalidSelectionError('keepOrder', 'write true or false');
    if (!rate.safeParse(ratePerSecond).success)
      throw new InvalidSelectionError('ratePerSecond', 'write messages per second from 0.01 to 10000');
    const id = await store.create(selection, {
      action,
      actor: words('actor', request.actor, 128),
      reason: words('reason', request.reason, 500),
      ratePerSecond,
      keepOrder,
      maxReplays: this.options.maxReplays === false ? null : this.options.maxReplays,
    });
    this.onStarted();
    const run = await store.get(id);
    if (!run) throw new Error(`run ${id} is not there any more`);
    return run;
  }

  private boxOf(name: unknown): RunBox {
    const box = runBoxOf(name, this.inbox);
    if (!box) throw new InvalidSelectionError('box', "write 'inbox' or 'outbox'");
    return box;
  }

  private storeOf(box: unknown): RunStore {
    return this.stores[this.boxOf(box).name];
  }
}

function idOf(id: unknown): string {
  if ((typeof id === 'string' || typeof id === 'number') && /^[1-9]\d{0,19}$/.test(String(id))) return String(id);
  throw new InvalidSelectionError('id', 'write a positive whole number');
}

function pageSize(limit: unknown): number {
  const size = Number(limit);
  if (!Number.isInteger(size) || size < 1 || size > mostOnPage)
    throw new InvalidSelectionError('limit', `write a whole number from 1 to ${mostOnPage}`);
  return size;
}

/** A name that is mistyped would be a wish that is not heard. */
function refuseUnknown(request: object, known: readonly string[]): void {
  const unknown = Object.keys(request).find((name) => !known.includes(name));
  if (unknown !== undefined) throw new InvalidSelectionError(unknown, `write one of ${known.join(', ')}`);
}

function words(field: string, value: unknown, atMost: number): string {
  if (typeof value !== 'string' || value.trim() === '' || value.length > atMost)
    throw new InvalidSelectionError(field, `write 1 to ${atMost} characters: it is kept with the run`);
  return value;
}
