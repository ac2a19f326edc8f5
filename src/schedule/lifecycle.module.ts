import { Module } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { Shutdown } from './shutdown.js';

/** One shutdown for all mailroom modules of an application. */
@Module({
  providers: [
    { provide: Shutdown, inject: [HttpAdapterHost], useFactory: (adapters: HttpAdapterHost) => new Shutdown(adapters) },
  ],
  exports: [Shutdown],
})
export class MailroomLifecycleModule {}
