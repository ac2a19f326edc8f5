import fc from 'fast-check';

/** A request as it is written on the wire, right or wrong, and what its sender does then. */
export interface RandomRequest {
  readonly method: string;
  readonly target: string;
  readonly version: string;
  readonly headers: readonly (readonly [string, string])[];
  /** With the secret of the source that the target names, of the other one, or not at all. */
  readonly signed: 'rightly' | 'wrongly' | 'not';
  readonly body: Buffer;
  readonly framing: Framing;
  /** 'answer': waits for its answer. 'half': ends its side at once. 'gone': cuts the connection after what it wrote. */
  readonly ending: 'answer' | 'half' | 'gone';
  /** Written in two pieces, cut here (a part of the whole, 0 to 1); null: in one. */
  readonly cut: number | null;
}

/** How the end of the body is told, rightly or wrongly. */
export type Framing =
  | 'length'
  | 'chunked'
  | 'bad-chunks'
  | 'too-short'
  | 'too-long'
  | 'none'
  | 'both'
  | 'twice'
  | 'nonsense';

const wild = fc.oneof(
  fc.string({ maxLength: 60 }),
  fc.string({ unit: 'binary', maxLength: 60 }),
  fc.constantFrom('', ' ', ',', ';', '=', '\t', '%00', '..', '__proto__', '\u00ff\u00fe', 'null', 'a'.repeat(9_000)),
);
/** What may stand in a header without ending it. */
const headerText = wild.map((text) =>
  Buffer.from(text)
    .toString('latin1')
    .replace(/[\r\n\0]/g, ' '),
);

const contentType = fc.constantFrom(
  'application/json',
  'application/json; charset=utf-16',
  'application/json; charset=nonsense',
  'application/x-www-form-urlencoded',
  'multipart/form-data; boundary=x',
  'multipart/form-data',
  'text/plain',
  'text/xml; charset=gbk',
  'application/octet-stream',
  'not a content type',
  '',
);

const header: fc.Arbitrary<readonly [string, string]> = fc.oneof(
  { weight: 6, arbitrary: fc.tuple(fc.constant('content-type'), contentType) },
  {
    weight: 1,
    arbitrary: fc.tuple(
      fc.constant('content-encoding'),
      fc.constantFrom('gzip', 'br', 'identity', 'IDENTITY', 'x, y', ''),
    ),
  },
  { weight: 1, arbitrary: fc.tuple(fc.constant('expect'), fc.constantFrom('100-continue', '100-Continue', 'nothing')) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constant('connection'), fc.constantFrom('close', 'keep-alive', 'upgrade', 'close, x')),
  },
  { weight: 1, arbitrary: fc.tuple(fc.constant('upgrade'), fc.constantFrom('websocket', 'h2c')) },
  {
    weight: 4,
    arbitrary: fc.tuple(
      fc.constantFrom(
        'webhook-id',
        'webhook-timestamp',
        'webhook-signature',
        'x-hub-signature-256',
        'x-github-event',
        'x-github-delivery',
        'traceparent',
        'x-request-id',
        'x-forwarded-for',
        'authorization',
        'cookie',
        'origin',
        'accept-encoding',
        'content-disposition',
        'x-http-method-override',
      ),
      headerText,
    ),
  },
  { weight: 1, arbitrary: fc.tuple(fc.stringMatching(/^[A-Za-z0-9_-]{1,40}$/), headerText) },
  // No header at all.
  { weight: 1, arbitrary: fc.tuple(fc.constantFrom('', 'a b', 'x:y', ':', '\u00e4'), headerText) },
);

const target = fc.oneof(
  { weight: 8, arbitrary: fc.constantFrom('/webhooks/orders', '/webhooks/github', '/webhooks/contracts', '/push') },
  {
    weight: 3,
    arbitrary: fc.constantFrom(
      '/webhooks/orders/',
      '/webhooks//orders',
      '/WEBHOOKS/ORDERS',
      '/webhooks/%6Frders',
      '/webhooks/orders?a=1&a[b]=2',
      '/webhooks/orders#x',
      '//webhooks/orders',
      '/webhooks/../webhooks/orders',
      '/webhooks/%ZZ',
      '/webhooks/%00',
      'http://other.example/webhooks/orders',
      '*',
      '',
      '/push?compensation=true',
      '/push?compensation=true&compensation=true',
      '/orders/%E0%A4%A',
      '/profiles/%00',
      '/contracts/%00',
      '/im/messages',
      '/admin/replay',
      '/health/ready',
      '/__proto__',
    ),
  },
  { weight: 1, arbitrary: fc.webPath().map((path) => `/${path}`.slice(0, 200)) },
  {
    weight: 1,
    arbitrary: fc.string({ maxLength: 30 }).map((text) => `/orders/${encodeURIComponent(text.toWellFormed())}`),
  },
);

/** What an order centre could send, and near misses. */
const event = fc.record(
  {
    eventId: fc.oneof(
      { weight: 8, arbitrary: fc.uuid() },
      fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.constant(''), fc.constant(null)),
    ),
    orderId: fc.oneof(
      { weight: 8, arbitrary: fc.uuid() },
      fc.oneof(fc.string({ unit: 'grapheme' }), fc.constant('x'.repeat(300)), fc.jsonValue()),
    ),
    type: fc.oneof(
      { weight: 8, arbitrary: fc.constantFrom('order.created', 'order.paid', 'order.shipped') },
      { weight: 2, arbitrary: fc.oneof(fc.string(), fc.jsonValue()) },
    ),
    occurredAt: fc.oneof(
      { weight: 8, arbitrary: fc.constant('2026-01-01T00:00:00Z') },
      { weight: 2, arbitrary: fc.oneof(fc.string(), fc.double()) },
    ),
    amount: fc.oneof({ weight: 12, arbitrary: fc.nat() }, fc.oneof(fc.double(), fc.string(), fc.bigInt().map(String))),
  },
  { requiredKeys: ['orderId', 'type', 'occurredAt', 'amount'] },
);

const contract = fc.record({
  msgId: fc.oneof({ weight: 6, arbitrary: fc.uuid() }, fc.jsonValue()),
  contractId: fc.oneof({ weight: 6, arbitrary: fc.uuid() }, fc.string({ unit: 'grapheme' }), fc.jsonValue()),
  signStatus: fc.oneof({ weight: 6, arbitrary: fc.constant('signed') }, fc.string(), fc.jsonValue()),
  signTime: fc.oneof({ weight: 6, arbitrary: fc.constant('2026-01-01T00:00:00Z') }, fc.string(), fc.double()),
});

const json = fc.oneof(
  { weight: 2, arbitrary: contract.map((value) => JSON.stringify(value)) },
  { weight: 6, arbitrary: event.map((value) => JSON.stringify(value)) },
  { weight: 2, arbitrary: fc.array(event, { maxLength: 5 }).map((value) => JSON.stringify(value)) },
  { weight: 3, arbitrary: fc.json({ maxDepth: 8 }) },
  {
    weight: 2,
    arbitrary: fc
      .record({ msgType: fc.oneof(fc.constant(1008), fc.jsonValue()), msgStr: fc.oneof(fc.json(), fc.jsonValue()) })
      .map((value) => JSON.stringify(value)),
  },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '',
      '{',
      'null',
      '[]',
      `${'['.repeat(50_000)}${']'.repeat(50_000)}`,
      `[${'{},'.repeat(600)}{}]`,
      '{"__proto__":{"polluted":true},"constructor":{"prototype":{}}}',
      '{"orderId":"a","orderId":"b","type":"order.paid","amount":1e999}',
      '{"orderId":"\\ud800","type":"order.paid","occurredAt":"2026-01-01T00:00:00Z","amount":1}',
      '{"orderId":"\\u0000","type":"order.paid","occurredAt":"2026-01-01T00:00:00Z","amount":1}',
      '{"eventId":12345678901234567890,"orderId":"x"}',
      '\ufeff{"orderId":"x"}',
    ),
  },
);

const body = fc.oneof(
  { weight: 120, arbitrary: json.map((text) => Buffer.from(text)) },
  { weight: 30, arbitrary: fc.uint8Array({ maxLength: 2_000 }).map((bytes) => Buffer.from(bytes)) },
  // Above the limit of the order centre by a byte.
  { weight: 1, arbitrary: fc.constant(Buffer.alloc(1_048_577, 32)) },
);

export const randomRequest: fc.Arbitrary<RandomRequest> = fc.record({
  method: fc.oneof(
    { weight: 12, arbitrary: fc.constant('POST') },
    {
      weight: 2,
      arbitrary: fc.constantFrom(
        'GET',
        'HEAD',
        'PUT',
        'PATCH',
        'DELETE',
        'OPTIONS',
        'TRACE',
        'CONNECT',
        'QUERY',
        'post',
        'NONSENSE',
        '',
      ),
    },
  ),
  target,
  version: fc.oneof(
    { weight: 30, arbitrary: fc.constant('HTTP/1.1') },
    fc.constantFrom('HTTP/1.0', 'HTTP/2.0', 'HTTP/9.9', 'x'),
  ),
  headers: fc.array(header, { maxLength: 6 }),
  signed: fc.oneof(
    { weight: 8, arbitrary: fc.constant<RandomRequest['signed']>('rightly') },
    fc.constantFrom<RandomRequest['signed']>('wrongly', 'not'),
  ),
  body,
  framing: fc.oneof(
    { weight: 8, arbitrary: fc.constant<Framing>('length') },
    { weight: 3, arbitrary: fc.constant<Framing>('chunked') },
    fc.constantFrom<Framing>('bad-chunks', 'too-short', 'too-long', 'none', 'both', 'twice', 'nonsense'),
  ),
  ending: fc.oneof(
    { weight: 8, arbitrary: fc.constant<RandomRequest['ending']>('answer') },
    fc.constantFrom<RandomRequest['ending']>('half', 'gone'),
  ),
  cut: fc.option(fc.double({ min: 0, max: 1, noNaN: true }), { freq: 3 }),
});

/** The same requests for the same seed. */
export function randomRequests(seed: number, count: number): RandomRequest[] {
  return fc.sample(randomRequest, { seed, numRuns: count });
}
