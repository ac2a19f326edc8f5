import { MailroomError } from './mailroom.error.js';

/** An option is missing, unknown, out of range or contradicts another: the application does not start. */
export class InvalidOptionsError extends MailroomError {
  readonly code = 'MAILROOM_INVALID_OPTIONS';
  /** The value in words; the value itself may be a secret. */
  readonly received: string;

  /**
   * @param path where the option stands, for example `inbox.lease.ttl`
   * @param received the value as given; it is shortened, and never printed when the path names a secret
   * @param expected what to write instead
   */
  constructor(
    readonly path: string,
    received: unknown,
    readonly expected: string,
  ) {
    super(`${path}: got ${describe(path, received)}; ${expected}`);
    this.received = describe(path, received);
  }
}

function describe(path: string, value: unknown): string {
  if (/secret|password|token|redis|url/i.test(path)) return value === undefined ? 'nothing' : `a ${typeof value}`;
  if (value === undefined) return 'nothing';
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}...` : value);
  if (typeof value === 'number' || typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`;
}
