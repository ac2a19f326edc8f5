import type { IncomingHttpHeaders } from 'node:http';

/** What arrived, as given to `receive()`. */
export interface PushInput {
  /** The bytes as they came. Text is taken as UTF-8. */
  readonly rawBody: Buffer | string;
  /** What the signature is over, where that is not `rawBody`: a compressed body as it came. */
  readonly signedBytes?: Buffer;
  /** Lower-case names, as Node gives them. */
  readonly headers?: Readonly<IncomingHttpHeaders>;
  /** Address of the sender, for `accept` and logs; not stored. */
  readonly ip?: string | undefined;
}

/** One push while it is taken in. `text` and `json` are decoded at first use, from the same bytes that are stored. */
export class Push {
  readonly rawBody: Buffer;
  readonly headers: Readonly<IncomingHttpHeaders>;
  private decoded: { readonly text: string } | undefined;
  // biome-ignore lint/suspicious/noExplicitAny: the body of a third party has whatever shape it has
  private parsed: { readonly json: any } | undefined;

  constructor(private readonly input: PushInput) {
    this.rawBody = typeof input.rawBody === 'string' ? Buffer.from(input.rawBody) : input.rawBody;
    this.headers = input.headers ?? {};
  }

  /** What the signature is over. */
  get signedBytes(): Buffer {
    return this.input.signedBytes ?? this.rawBody;
  }

  get ip(): string | undefined {
    return this.input.ip;
  }

  get contentType(): string | undefined {
    return this.headers['content-type'];
  }

  /** The body as UTF-8 text without a byte order mark. @throws TypeError when the bytes are no UTF-8 */
  get text(): string {
    this.decoded ??= { text: decodeUtf8(this.rawBody) };
    return this.decoded.text;
  }

  /** The body as JSON. Numbers beyond 2^53 lose digits here, never in what is stored. @throws SyntaxError */
  // biome-ignore lint/suspicious/noExplicitAny: see above
  get json(): any {
    this.parsed ??= { json: JSON.parse(this.text) };
    return this.parsed.json;
  }

  /** One value of a header; a header that was sent several times gives its first value. */
  header(name: string): string | undefined {
    const value = this.headers[name.toLowerCase()];
    return Array.isArray(value) ? value[0] : value;
  }
}

const strictUtf8 = new TextDecoder('utf-8', { fatal: true });

export function decodeUtf8(bytes: Buffer): string {
  return strictUtf8.decode(bytes);
}
