import { currentMessage } from '../ambient-message.js';
import { arrivingTrace, headersOfTrace, type Trace } from './trace.js';

/** A message that an attempt is about. */
export interface TracedMessage {
  /** Of the row; '0' for what is handled without being stored. */
  readonly id: string;
  /** As its receiver knows it. */
  readonly messageId: string;
  readonly attempt: number;
  readonly trace: Trace;
}

/** An attempt at one message, or at several that are handled or sent together. */
export interface TracedAttempt {
  readonly box: 'inbox' | 'outbox';
  readonly operation: 'handle' | 'send';
  /** The source of the inbox; of the outbox how it leaves. */
  readonly destination: string;
  /** Type or topic. */
  readonly type: string;
  readonly messages: readonly TracedMessage[];
}

/** Joins what mailroom does with the application's traces. */
export interface Tracing {
  /** Runs the intake of a push; `take` gets the trace that is stored with its messages. */
  receive<T>(
    source: string,
    headers: Readonly<Record<string, unknown>>,
    take: (trace: Trace) => Promise<T>,
  ): Promise<T>;
  /** Runs `work` as an attempt. It ends when the outcome of its messages is told, or with the work for what is not stored. */
  attempt<T>(attempt: TracedAttempt, work: () => Promise<T>): Promise<T>;
  /** The trace of a push that is handled at once. */
  arriving(headers: Readonly<Record<string, unknown>>): Trace;
  /** What a message that is enqueued here takes along. */
  carried(): Record<string, string>;
}

/** Without OpenTelemetry: traces are handed on as they came. */
export const untraced: Tracing = {
  receive: (_source, headers, take) => take(arrivingTrace(headers)),
  attempt: (_attempt, work) => work(),
  arriving: arrivingTrace,
  carried: () => headersOfTrace(currentMessage() ?? {}),
};
