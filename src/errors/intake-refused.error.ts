import { MailroomError } from './mailroom.error.js';

export type IntakeRefusal =
  | 'unknown-source'
  | 'signature'
  | 'too-large'
  | 'invalid'
  | 'unsupported'
  | 'rate-limited'
  | 'overloaded'
  | 'backlog'
  | 'pool-busy'
  | 'unavailable'
  | 'draining';

const statusOf: Readonly<Record<IntakeRefusal, number>> = {
  'unknown-source': 404,
  signature: 401,
  'too-large': 413,
  invalid: 400,
  unsupported: 415,
  'rate-limited': 429,
  overloaded: 503,
  backlog: 503,
  'pool-busy': 503,
  unavailable: 503,
  draining: 503,
};

/**
 * A push was not stored. `statusCode` is what the sender should be answered: 4xx when pushing the same again cannot
 * help, 429 or 503 with Retry-After when it can. Nest's default exception filter answers with it by itself.
 */
export class IntakeRefusedError extends MailroomError {
  readonly code = 'MAILROOM_INTAKE_REFUSED';
  readonly statusCode: number;
  /** With `expose`, what Nest's filter knows an error with a status of its own by. */
  readonly status: number;
  /** The message may go to the sender. */
  readonly expose = true;
  /** After how many milliseconds the sender should try again; set for 429 and 503 only. */
  readonly retryAfterMs: number | undefined;

  constructor(
    readonly refusal: IntakeRefusal,
    message: string,
    options: { readonly cause?: unknown; readonly retryAfterMs?: number } = {},
  ) {
    super(message, options);
    this.statusCode = statusOf[refusal];
    this.status = this.statusCode;
    this.retryAfterMs = options.retryAfterMs ?? ([429, 503].includes(this.statusCode) ? 1000 : undefined);
  }
}
