import { MailroomError } from './mailroom.error.js';

/** Why a message could not be edited. `off`: the option `edit` of `ReplayModule` is not set. */
export type EditProblem = 'off' | 'not-there' | 'not-ended' | 'too-often';

const statusCodes = { off: 403, 'not-there': 404, 'not-ended': 409, 'too-often': 409 } as const;

/** A message was not edited. Nothing was changed. `statusCode` is 403, 404 or 409. */
export class EditRefusedError extends MailroomError {
  readonly code = 'MAILROOM_EDIT_REFUSED';
  readonly statusCode: number;
  readonly status: number;
  readonly expose = true;

  constructor(
    readonly messageId: string,
    why: string,
    readonly problem: EditProblem,
  ) {
    super(`message ${messageId} cannot be edited: ${why}`);
    this.statusCode = statusCodes[problem];
    this.status = this.statusCode;
  }
}
