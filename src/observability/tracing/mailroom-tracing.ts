import type { OnApplicationShutdown } from '@nestjs/common';
import type { MailroomEvents } from '../events.js';
import { MailroomLogger } from '../logging/mailroom-logger.js';
import type { Trace } from './trace.js';
import { type TracedAttempt, type Tracing, untraced } from './tracing.js';

/** The tracing of an application: through OpenTelemetry where its API is installed. */
export class MailroomTracing implements Tracing, OnApplicationShutdown {
  private constructor(
    private readonly tracing: Tracing,
    private readonly end: () => void,
  ) {}

  /** `@opentelemetry/api` is an optional peer: it is looked for once, when the application starts. */
  static async open(events: MailroomEvents): Promise<MailroomTracing> {
    try {
      const api = await import('@opentelemetry/api');
      const { OpenTelemetryTracing } = await import('./open-telemetry.js');
      const tracing = new OpenTelemetryTracing(api, events);
      return new MailroomTracing(tracing, () => tracing.end());
    } catch (error) {
      const { code, message } = error as { readonly code?: unknown; readonly message?: string };
      if (code !== 'ERR_MODULE_NOT_FOUND' && code !== 'MODULE_NOT_FOUND')
        new MailroomLogger('MailroomTracing').warn({
          msg: '@opentelemetry/api is there but cannot be loaded: no spans are made',
          code,
          error: message,
        });
      return new MailroomTracing(untraced, () => undefined);
    }
  }

  receive<T>(
    source: string,
    headers: Readonly<Record<string, unknown>>,
    take: (trace: Trace) => Promise<T>,
  ): Promise<T> {
    return this.tracing.receive(source, headers, take);
  }

  attempt<T>(attempt: TracedAttempt, work: () => Promise<T>): Promise<T> {
    return this.tracing.attempt(attempt, work);
  }

  arriving(headers: Readonly<Record<string, unknown>>): Trace {
    return this.tracing.arriving(headers);
  }

  carried(): Record<string, string> {
    return this.tracing.carried();
  }

  onApplicationShutdown(): void {
    this.end();
  }
}
