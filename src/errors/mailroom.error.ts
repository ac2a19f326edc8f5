/**
 * Base of every error that this package throws. `code` is stable and meant for programs, `message` is for people: what
 * happened, with the value, then what to do. Neither ever holds a secret or a message body.
 */
export abstract class MailroomError extends Error {
  abstract readonly code: string;

  constructor(message: string, options?: { readonly cause?: unknown }) {
    super(message, options);
    this.name = new.target.name;
  }
}
