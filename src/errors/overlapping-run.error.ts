import { MailroomError } from './mailroom.error.js';

/** Another run that is not finished has some of the messages. Nothing was started. `statusCode` is 409. */
export class OverlappingRunError extends MailroomError {
  readonly code = 'MAILROOM_OVERLAPPING_RUN';
  readonly statusCode = 409;
  readonly status = 409;
  readonly expose = true;

  constructor(readonly runId: string) {
    super(`run ${runId} has some of these messages and is not finished; wait for it, or cancel it`);
  }
}
