// What the log may show: no credentials, no bodies, no numbers of people. No server.
import { redactFields, redactText } from '../../../src/index.js';

describe('text', () => {
  test.each([
    ['a phone number', 'call 13800138000', 'call *********00'],
    ['a phone number with blanks and a country', '+86 138 0013 8000', '+** *** **** **00'],
    ['a phone number in parentheses', '(021) 5555-1234', '(***) ****-**34'],
    ['wide digits', '１３８００１３８０００', '*********００'],
    ['a card number', 'card 4111 1111 1111 1111', 'card **** **** **** **11'],
    ['a bearer token', 'Authorization failed for Bearer abc.def-123456', 'Authorization failed for Bearer ***'],
    ['a JSON Web Token', 'token eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln was refused', 'token *** was refused'],
    ['a webhook secret', 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD', 'whsec_***'],
    ['a token of GitHub', 'ghp_0123456789abcdefABCDEF', 'ghp_***'],
    ['a key of Stripe', 'sk_live_abcdefgh12345678', 'sk_live_***'],
    ['a password in a URL', 'connect mysql://app:s3cret@db:3306/shop', 'connect mysql://***@db:3306/shop'],
    ['a password in a query', 'GET /x?password=hunter2&a=b', 'GET /x?password=***&a=b'],
    ['a token in JSON', '{"access_token": "abc def", "a": 1}', '{"access_token": ***, "a": 1}'],
  ])('%s is masked', (_what, text, shown) => expect(redactText(text)).toBe(shown));

  test.each([
    'connect ECONNREFUSED 10.0.0.12:3306',
    'since 2026-12-01 13:46:05',
    'order-1234 of shop 17',
    "Duplicate entry 'a' for key 'inbox_dedup'",
    'the token was refused',
  ])('%s stays as it is', (text) => expect(redactText(text)).toBe(text));

  test('a long text of any kind takes no long time: no pattern goes back and forth', () => {
    // A pattern that backtracks over this would not end within the time of a test.
    for (const text of [
      '1 '.repeat(50_000),
      'a'.repeat(100_000),
      'token: '.repeat(20_000),
      `a://${'b'.repeat(100_000)}`,
    ])
      expect(redactText(text).length).toBeLessThanOrEqual(text.length);
  });
});

describe('fields', () => {
  test('secrets and bodies are left out by their name, at any depth, and the given object stays as it is', () => {
    const given = {
      a: { Authorization: 'x', deep: [{ password: 1, webhookSecret: 's' }] },
      body: { name: 'Ada' },
      token: null,
    };
    expect(redactFields(given)).toEqual({
      a: { Authorization: '[redacted]', deep: [{ password: '[redacted]', webhookSecret: '[redacted]' }] },
      body: '[redacted]',
      token: null,
    });
    expect(given.a.deep[0]?.password).toBe(1);
  });

  test('a BigInt becomes text, so that no logger fails on it; bytes become their length', () => {
    const line = redactFields({ id: 18446744073709551615n, amount: 12n, all: [1n], bytes: Buffer.from('secret') });
    expect(line).toEqual({ id: '18446744073709551615', amount: '12', all: ['1'], bytes: '[6 bytes]' });
    expect(() => JSON.stringify(line)).not.toThrow();
  });

  test('ids and times of ours keep their digits, a phone number as a number does not', () => {
    const ours = {
      id: '12345678901',
      messageId: '123456789',
      traceId: '1234567890abcdef',
      time: 1780000000000,
      dueAt: 1780000000000,
    };
    expect(redactFields({ ...ours, durationMs: 12345678, phone: 13800138000, ok: true })).toEqual({
      ...ours,
      durationMs: 12345678,
      phone: '*********00',
      ok: true,
    });
  });

  test('an error keeps its code and loses numbers and credentials', () => {
    const error = Object.assign(new Error("Duplicate entry '13800138000' for key 'phone'"), { code: 'ER_DUP_ENTRY' });
    const { err } = redactFields({ err: error }) as {
      err: { type: string; code: string; message: string; stack: string };
    };
    expect(err).toMatchObject({
      type: 'Error',
      code: 'ER_DUP_ENTRY',
      message: "Duplicate entry '*********00' for key 'phone'",
    });
    expect(err.stack).not.toContain('13800138000');
  });

  test('a circle, a deep and a wide object end', () => {
    const circle: Record<string, unknown> = { wide: Array.from({ length: 10_000 }, (_, n) => n) };
    circle.self = circle;
    expect(JSON.stringify(redactFields(circle)).length).toBeLessThan(20_000);
    expect(redactFields({ a: { a: { a: { a: { a: { a: { b: 1 } } } } } } })).toEqual({
      a: { a: { a: { a: { a: { a: '[left out]' } } } } },
    });
  });
});
