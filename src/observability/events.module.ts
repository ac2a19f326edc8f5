import { Module } from '@nestjs/common';
import { MailroomEvents } from './events.js';
import { MailroomProbes } from './probes.js';
import { RetryWindows } from './retry-windows.js';

const shared = [MailroomEvents, MailroomProbes, RetryWindows];

/** One of each for all mailroom modules of an application. */
@Module({ providers: shared, exports: shared })
export class MailroomEventsModule {}
