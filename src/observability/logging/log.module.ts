import { type DynamicModule, Module } from '@nestjs/common';
import { type LogOptions, resolveLogOptions } from './log-options.js';

/** Where the options are found; without the module the defaults hold. */
export const logOptionsToken = Symbol.for('mailroom:log-options');

/** Options of mailroom's log lines. Lines are written without it too, by Nest's Logger: import it once to change them. */
@Module({})
// biome-ignore lint/complexity/noStaticOnlyClass: a Nest module is a class with static factories
export class MailroomLogModule {
  /** @throws InvalidOptionsError at once for wrong options */
  static forRoot(options: LogOptions = {}): DynamicModule {
    return {
      module: MailroomLogModule,
      global: true,
      providers: [{ provide: logOptionsToken, useValue: resolveLogOptions(options) }],
      exports: [logOptionsToken],
    };
  }
}
