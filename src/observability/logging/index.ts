/**
 * Log lines: one for each outcome, a subscriber of `MailroomEvents`, through Nest's Logger, so they go where the application's
 * own lines go. Start with outcome-lines.ts, which says what is told; outcome-log.ts decides which are. Bodies are never
 * in a line, and nothing here has a timer.
 */
export { logOptionsToken, MailroomLogModule } from './log.module.js';
export { type LogOptions, resolveLogOptions } from './log-options.js';
export { MailroomLogger } from './mailroom-logger.js';
export { maskDigits } from './mask-digits.js';
export { OutcomeLog } from './outcome-log.js';
export { redactFields } from './redact-fields.js';
export { redactText } from './redact-text.js';
