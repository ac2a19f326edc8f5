import type { Span, SpanContext, SpanStatusCode } from '@opentelemetry/api';
import { LRUCache } from 'lru-cache';

/** Spans that wait for an outcome, and attempts that are remembered, at most. More of them end, or are forgotten. */
const mostSpans = 10_000;

/** What became of a message; `errorKind` where it is no success. */
export interface Settlement {
  readonly outcome: string;
  readonly errorKind?: string;
}

interface OpenSpan {
  readonly span: Span;
  /** Keys of the messages whose outcome is not told yet. */
  readonly waiting: Set<string>;
  /** When its work was done; undefined: it is not. */
  doneAt?: number;
  ended: boolean;
}

/** Spans of attempts, from their start until the outcome of each of their messages is told. Owns no timer. */
export class OpenSpans {
  private readonly open = new LRUCache<string, OpenSpan>({
    max: mostSpans,
    dispose: (entry, key, reason) => {
      if (reason === 'evict') this.close(entry, key);
    },
  });
  private readonly attempts = new LRUCache<string, SpanContext>({ max: mostSpans });

  constructor(private readonly failed: SpanStatusCode) {}

  /** The attempt before at the same message, if it was in this process. */
  former(key: string): SpanContext | undefined {
    return this.attempts.get(key);
  }

  /** Returns what is to be called when the work is done. */
  start(keys: readonly string[], span: Span): () => void {
    const entry: OpenSpan = { span, waiting: new Set(keys), ended: false };
    for (const key of keys) {
      // One that was told of nothing: its messages are tried one by one now, or its outcome could not be written.
      const before = this.open.get(key);
      if (before) this.close(before, key);
      this.open.set(key, entry);
      this.attempts.set(key, span.spanContext());
    }
    return () => {
      entry.doneAt = Date.now();
    };
  }

  settle(key: string, { outcome, errorKind }: Settlement): void {
    const entry = this.open.get(key);
    if (errorKind === undefined) this.attempts.delete(key);
    if (!entry) return;
    this.open.delete(key);
    entry.waiting.delete(key);
    entry.span.setAttribute('mailroom.outcome', outcome);
    if (errorKind !== undefined) fail(entry.span, errorKind, this.failed);
    if (entry.waiting.size === 0) end(entry);
  }

  /** Ends what was never told of. */
  endAll(): void {
    for (const [key, entry] of [...this.open.entries()]) this.close(entry, key);
    this.open.clear();
  }

  private close(entry: OpenSpan, key: string): void {
    entry.waiting.delete(key);
    fail(entry.span, 'no-outcome', this.failed);
    // It took as long as its work.
    if (entry.waiting.size === 0) end(entry, entry.doneAt);
  }
}

/** Without the error's text, which may quote a body. */
export function fail(span: Span, errorKind: string, code: SpanStatusCode): void {
  span.setAttribute('error.type', errorKind);
  span.setStatus({ code, message: errorKind });
}

function end(entry: OpenSpan, at?: number): void {
  if (entry.ended) return;
  entry.ended = true;
  entry.span.end(at);
}
