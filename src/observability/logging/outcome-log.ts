import { Logger } from '@nestjs/common';
import type { MailroomEvent, MailroomEventName, MailroomEvents } from '../events.js';
import type { ResolvedLogOptions } from './log-options.js';
import { type OutcomeLine, outcomeLines, sampledEvents } from './outcome-lines.js';
import { redactFields } from './redact-fields.js';
import { isSampled } from './sampled-trace.js';

/** Where lines go. */
export type LineWriter = Pick<Logger, 'log' | 'warn' | 'error'>;

const asItIs = (text: string) => text;

/** Writes one line for each outcome: a share of what went well, and everything that did not or was slow. */
export class OutcomeLog {
  constructor(
    events: MailroomEvents,
    private readonly options: ResolvedLogOptions,
    private readonly writer: LineWriter = new Logger('Mailroom'),
  ) {
    for (const name of Object.keys(outcomeLines) as (keyof typeof outcomeLines)[])
      events.on(name, (event: MailroomEvent) => this.hear(event));
  }

  private hear(event: MailroomEvent): void {
    const isSlow = 'durationMs' in event && event.durationMs >= this.options.slow;
    // Before the line is made: of most messages none is.
    if (sampledEvents.has(event.name) && !isSlow && !isSampled(traceOf(event), this.options.sampleRate)) return;
    const lineOf = outcomeLines[event.name] as ((event: MailroomEvent) => OutcomeLine) | undefined;
    if (lineOf) this.write(event.name, lineOf(event), isSlow);
  }

  private write(event: MailroomEventName, { level, msg, fields }: OutcomeLine, isSlow: boolean): void {
    const { redact } = this.options;
    const line = redactFields({ msg, event, ...fields, ...durationOf(fields) }, redact === false ? asItIs : redact);
    this.writer[isSlow && level === 'log' ? 'warn' : level](isSlow ? { ...line, slow: true } : line);
  }
}

/** A tenth of a millisecond is fine enough to read. */
function durationOf({ durationMs }: OutcomeLine['fields']): { durationMs?: number } {
  return typeof durationMs === 'number' ? { durationMs: Math.round(durationMs * 10) / 10 } : {};
}

function traceOf(event: MailroomEvent): string {
  return 'traceId' in event ? event.traceId : '';
}
