import { Module } from '@nestjs/common';
import { MailroomEvents } from './events.js';

/** One `MailroomEvents` for all mailroom modules of an application. */
@Module({ providers: [MailroomEvents], exports: [MailroomEvents] })
export class MailroomEventsModule {}
