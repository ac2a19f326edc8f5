import { Logger } from '@nestjs/common';
import { redactFields } from './redact-fields.js';
import { redactText } from './redact-text.js';

/** Nest's logger for mailroom's own lines: what the database or a client says may quote what it was sent. */
export class MailroomLogger extends Logger {
  override log(line: string | object): void {
    super.log(safe(line));
  }

  override warn(line: string | object): void {
    super.warn(safe(line));
  }

  override error(line: string | object): void {
    super.error(safe(line));
  }

  override debug(line: string | object): void {
    super.debug(safe(line));
  }
}

function safe(line: string | object): string | object {
  return typeof line === 'string' ? redactText(line) : redactFields(line);
}
