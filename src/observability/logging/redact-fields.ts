import { redactText } from './redact-text.js';

/** Bounds of one line: deeper, longer or more of it is left out, so that an object graph cannot stop the process. */
const deepest = 5;
const mostValues = 500;
const longestText = 2_000;

const leftOut = '[left out]';
const redacted = '[redacted]';
/** Names whose value is never shown, whatever it looks like. */
const secretName =
  /^(?:authorization|cookies?|set-cookie|credentials?|body|raw_?body|payload)$|password|passwd|secret|token$|api[_-]?key|private[_-]?key|signature/i;
/** Names of ours that hold identities and times: their digits are nobody's number. */
const plainName = /^(?:id|messageId|traceId|spanId|traceparent|requestId|run|pid|time|timestamp)$|(?:At|Ms)$/;

/**
 * The fields of a log line without secrets, bodies, and numbers that may be those of a person: for objects that are
 * logged, such as `formatters.log` of pino. The given object stays as it is.
 *
 * Values under a secret's name, `body` and `payload` are left out, text is passed through `redact`, a BigInt becomes
 * text, bytes their length, an error its type, code, message and stack. Streams and the like are handed on untouched, for a
 * serializer of the logger.
 */
export function redactFields(fields: object, redact: (text: string) => string = redactText): Record<string, unknown> {
  const budget = { left: mostValues };
  return objectOf(fields, redact, budget, 0);
}

interface Budget {
  left: number;
}

function objectOf(given: object, redact: (text: string) => string, budget: Budget, depth: number) {
  const safe: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(given)) {
    if (budget.left-- <= 0) break;
    const isSecret = secretName.test(name) && value !== null && value !== undefined;
    if (isSecret) safe[name] = redacted;
    else if (plainName.test(name) && typeof value !== 'object') safe[name] = plain(value);
    else safe[name] = safeValue(value, redact, budget, depth + 1);
  }
  return safe;
}

function plain(value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}

function safeValue(value: unknown, redact: (text: string) => string, budget: Budget, depth: number): unknown {
  switch (typeof value) {
    case 'string':
      return redact(value.length > longestText ? `${value.slice(0, longestText)}...` : value);
    case 'bigint':
      return redact(String(value));
    case 'number':
      return Number.isSafeInteger(value) ? numberOf(value, redact) : value;
    case 'object':
      return value === null ? null : thing(value, redact, budget, depth);
    case 'function':
    case 'symbol':
      return undefined;
    default:
      return value;
  }
}

/** A number stays one, unless it looks like that of a phone. */
function numberOf(value: number, redact: (text: string) => string): number | string {
  const text = String(value);
  const safe = redact(text);
  return safe === text ? value : safe;
}

function thing(value: object, redact: (text: string) => string, budget: Budget, depth: number): unknown {
  if (ArrayBuffer.isView(value)) return `[${value.byteLength} bytes]`;
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
  if ('on' in value && typeof value.on === 'function') return value;
  if (depth > deepest || budget.left <= 0) return leftOut;
  if (value instanceof Error) return errorOf(value, redact);
  if (value instanceof Map || value instanceof Set) return `[${value.size} entries]`;
  if (!Array.isArray(value)) return objectOf(value, redact, budget, depth);
  const safe: unknown[] = [];
  for (const one of value) {
    if (budget.left-- <= 0) break;
    safe.push(safeValue(one, redact, budget, depth + 1));
  }
  return safe;
}

function errorOf(error: Error, redact: (text: string) => string): object {
  const { name, message, stack } = error;
  const { code } = error as { readonly code?: unknown };
  return {
    type: name,
    ...(typeof code === 'string' || typeof code === 'number' ? { code } : {}),
    message: redact(message),
    stack: redact(stack ?? ''),
  };
}
