import { Module } from '@nestjs/common';
import { MailroomEvents } from './events.js';
import { RetryWindows } from './retry-windows.js';

/** One `MailroomEvents` for all mailroom modules of an application. */
@Module({ providers: [MailroomEvents, RetryWindows], exports: [MailroomEvents, RetryWindows] })
export class MailroomEventsModule {}
