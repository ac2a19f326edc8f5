import { Module } from '@nestjs/common';
import { MailroomEvents } from './events.js';
import { logOptionsToken } from './logging/log.module.js';
import { type ResolvedLogOptions, resolveLogOptions } from './logging/log-options.js';
import { OutcomeLog } from './logging/outcome-log.js';
import { MailroomProbes } from './probes.js';
import { RetryWindows } from './retry-windows.js';
import { MailroomTracing } from './tracing/mailroom-tracing.js';

const shared = [MailroomEvents, MailroomProbes, RetryWindows];

/** One of each for all mailroom modules of an application. */
@Module({
  providers: [
    ...shared,
    {
      provide: OutcomeLog,
      inject: [MailroomEvents, { token: logOptionsToken, optional: true }],
      useFactory: (events: MailroomEvents, options: ResolvedLogOptions = resolveLogOptions({})) =>
        new OutcomeLog(events, options),
    },
    {
      provide: MailroomTracing,
      inject: [MailroomEvents],
      useFactory: (events: MailroomEvents) => MailroomTracing.open(events),
    },
  ],
  exports: [...shared, MailroomTracing],
})
export class MailroomEventsModule {}
