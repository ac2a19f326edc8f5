import type { Params } from 'nestjs-pino';
import { currentMessage, redactFields, redactText } from '../index.js';

/** JSON lines without secrets and numbers of people; those that are written under a handler say which message it has. */
export const logging: Params = {
  pinoHttp: {
    // One line per request would drown the lines about messages.
    autoLogging: false,
    redact: ['req.headers.authorization', 'req.headers["webhook-signature"]', 'req.headers["x-hub-signature-256"]'],
    formatters: { log: (fields) => redactFields(fields) },
    hooks: {
      logMethod([first, second, ...rest], method) {
        const [fields, text] = [first, second].map((part: unknown) =>
          typeof part === 'string' ? redactText(part) : part,
        );
        method.apply(this, [fields, text, ...rest] as never);
      },
    },
    mixin: () => {
      const message = currentMessage();
      return message ? { traceId: message.traceId, messageId: message.messageId } : {};
    },
    // What a line says of itself comes before what is known around it.
    mixinMergeStrategy: (line, around) => ({ ...around, ...line }),
  },
};
