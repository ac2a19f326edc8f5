/** What a run does with its messages. An edit has one message, and is done when it is recorded. */
export type RunAction = 'replay' | 'discard' | 'edit';
/** pending: nobody works on it yet. running: an instance does, or did until it ended. The others are ends. */
export type RunState = 'pending' | 'running' | 'done' | 'cancelled';

export interface RunRequest {
  readonly action: Exclude<RunAction, 'edit'>;
  /** Who wants it, for the record: 1 to 128 characters. */
  readonly actor: string;
  /** Why, for the record: 1 to 500 characters. */
  readonly reason: string;
  /** Messages per second, 0.01 to 10,000. */
  readonly ratePerSecond: number;
  /** True: messages without an entity or key are handled one after the other, too. */
  readonly keepOrder: boolean;
  /** A message that was replayed this often is refused; null: no limit. */
  readonly maxReplays: number | null;
}

/** A run as it is recorded. The counts add up to `selected` when it is done. */
export interface Run {
  readonly id: string;
  readonly box: 'inbox' | 'outbox';
  readonly action: RunAction;
  readonly state: RunState;
  readonly actor: string;
  readonly reason: string;
  /** The selection as JSON. */
  readonly selection: string;
  readonly ratePerSecond: number;
  readonly keepOrder: boolean;
  readonly selected: number;
  readonly requeued: number;
  readonly discarded: number;
  readonly skipped: number;
  readonly refused: number;
  /** 'YYYY-MM-DD hh:mm:ss.mmm', UTC; null: not yet. */
  readonly createdAt: string;
  readonly startedAt: string | null;
  readonly finishedAt: string | null;
}

/** What became of one message of a run. */
export type ItemOutcome = 'requeued' | 'discarded' | 'skipped' | 'refused';

/** What one step of a run did. */
export interface RunStep {
  /** False: the run is not ours, was cancelled, or is done. */
  readonly going: boolean;
  readonly handled: number;
  /** Order units of messages that left the table: followers may come back. */
  readonly freed: readonly string[];
}
