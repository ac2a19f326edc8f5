import { Module } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Shutdown } from './shutdown.js';
import { StartUp } from './start-up.js';

/** One start-up report and one shutdown for all mailroom modules of an application. */
@Module({
  providers: [
    StartUp,
    { provide: Shutdown, inject: [HttpAdapterHost], useFactory: (adapters: HttpAdapterHost) => new Shutdown(adapters) },
  ],
  exports: [Shutdown, StartUp],
})
export class MailroomLifecycleModule {}
