import { maskDigits } from './mask-digits.js';

const shown = '***';

/** What a secret looks like, and what is shown of it. From the particular to the general. */
const secrets: readonly (readonly [RegExp, string])[] = [
  // A user and password in a URL.
  [/(\b[a-z][a-z0-9+.-]{1,20}:\/\/)[^\s/@]{1,512}@/gi, `$1${shown}@`],
  [/\b(bearer|basic)\s+[\w.~+/=-]{8,}/gi, `$1 ${shown}`],
  // A JSON Web Token.
  [/\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?/g, shown],
  // Tokens that say by their beginning what they are: Standard Webhooks, Stripe, GitHub, Slack, AWS.
  [/\b(whsec_|[srp]k_(?:live|test)_|gh[a-z]_|github_pat_|xox[a-z]-|AKIA)[\w+/=-]{8,}/g, `$1${shown}`],
  // `password=...`, `"token": "..."`
  [
    /\b([\w-]{0,32}(?:password|passwd|secret|token|api[_-]?key|authorization|signature)["']?\s{0,3}[:=]\s{0,3})(?:"[^"]*"?|'[^']*'?|[^\s"',;&)}]+)/gi,
    `$1${shown}`,
  ],
];

/** Without credentials, tokens, and numbers that may be those of a phone, a card or a person. */
export function redactText(text: string): string {
  let safe = text;
  for (const [pattern, replacement] of secrets) safe = safe.replace(pattern, replacement);
  return maskDigits(safe);
}
