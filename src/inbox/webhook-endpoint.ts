import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import { IntakeRefusedError } from '../errors/intake-refused.error.js';
import { type Trace, traceOf } from '../observability/index.js';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import type { ResolvedInboxOptions } from './inbox-options.js';
import type { Intake } from './intake.js';
import { callOwn } from './own-function.js';
import { AbortedPushError, discardRest, type ReceivedBody, readBody } from './read-body.js';
import type { PushResponse, Receipt } from './receipt.js';
import { RefusalLog } from './refusal-log.js';

const shortBodyBytes = 65_536;

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
}

/** The mounted path of a source: reads the bytes, takes the push in, answers. The same for every HTTP adapter. */
export class WebhookEndpoint {
  private readonly logger = new MailroomLogger('InboxWebhook');
  private readonly refusals = new RefusalLog(this.logger);
  readonly paths: ReadonlyMap<string, string>;

  constructor(
    private readonly intake: Intake,
    private readonly options: ResolvedInboxOptions,
  ) {
    const mounted = Object.entries(options.sources).flatMap(([name, { path }]) =>
      path === undefined ? [] : [[path, name] as const],
    );
    this.paths = new Map(mounted);
  }

  /** Answers one request of node:http. `address` tells the sender's where a source asks for it. Never rejects. */
  async serve(
    source: string,
    request: IncomingMessage,
    response: ServerResponse,
    address: () => string | undefined,
  ): Promise<void> {
    const answer = await this.answer(source, request, address, async () => {
      const limit = this.intake.maxBodyBytes(source);
      if (!isShort(request, Math.min(limit, shortBodyBytes))) this.intake.checkPlace(source);
      return readBody(request, limit, this.options.sources[source]?.gzip ?? null);
    });
    if (!answer || response.destroyed) return;
    const unread = !request.readableEnded;
    if (unread) discardRest(request);
    response.writeHead(answer.status, {
      ...answer.headers,
      'content-length': Buffer.byteLength(answer.body),
      ...(unread ? { connection: 'close' } : {}),
    });
    response.end(answer.body);
  }

  /** Null when the sender has gone away. Never rejects. */
  async answer(
    source: string,
    { headers }: IncomingMessage,
    address: () => string | undefined,
    body: () => Promise<ReceivedBody>,
  ): Promise<Answer | null> {
    try {
      const received = await body();
      const receipt = await this.intake.receive(source, {
        ...received,
        headers,
        get ip() {
          return address();
        },
      });
      return this.accepted(source, receipt);
    } catch (error) {
      if (error instanceof AbortedPushError) return null;
      return this.refused(source, error, traceOf(headers, ''));
    }
  }

  private accepted(source: string, receipt: Receipt | readonly Receipt[]): Answer {
    const respond = this.options.sources[source]?.respond;
    if (!respond) return json(200, receipt);
    try {
      const { status = 200, headers = {}, body } = callOwn(source, 'respond', () => respond(receipt));
      return answerOf({ status, headers, body });
    } catch (error) {
      // The row is committed: an error answer would only make the sender push it again.
      this.logger.error({
        msg: 'respond threw; the receipt was sent instead',
        source,
        error: reasonOf((error as Error | null)?.cause),
      });
      return json(200, receipt);
    }
  }

  private refused(source: string, error: unknown, { traceId }: Trace): Answer {
    if (!(error instanceof IntakeRefusedError)) {
      this.logger.error({ msg: 'a push could not be taken in', source, error: (error as Error | null)?.message });
      return problem(500, 'the push could not be taken in');
    }
    const { refusal, statusCode, retryAfterMs, cause } = error;
    const reason = reasonOf(cause);
    this.refusals.tell({
      source,
      refusal,
      reason,
      traceId: traceId === '' ? undefined : traceId,
      isOurs: statusCode >= 500 || statusCode === 429,
    });
    const retry: Record<string, string> =
      retryAfterMs === undefined ? {} : { 'retry-after': retryAfterSeconds(retryAfterMs) };
    return problem(statusCode, error.message, retry);
  }
}

/** The parser of JSON quotes what it could not read. */
function reasonOf(cause: unknown): string | undefined {
  if (typeof cause === 'string') return cause;
  return cause instanceof SyntaxError ? 'it is no JSON' : (cause as Error | undefined)?.message;
}

/** A short body is here by now, and its connection stays usable when it is read before there is known to be a place. */
function isShort({ headers }: IncomingMessage, bytes: number): boolean {
  return headers['content-encoding'] === undefined && Number(headers['content-length'] ?? Number.NaN) <= bytes;
}

/** Whole seconds, spread a little, so that the senders of a refused burst do not come back together. */
function retryAfterSeconds(ms: number): string {
  return String(Math.max(1, Math.ceil((ms / 1000) * (1 + Math.random()))));
}

function answerOf({
  status,
  headers,
  body,
}: Required<Pick<PushResponse, 'status' | 'headers'>> & { body?: unknown }): Answer {
  if (body === undefined) return { status, headers, body: '' };
  if (typeof body === 'string' || Buffer.isBuffer(body)) return { status, headers, body };
  return { ...json(status, body), headers: { 'content-type': 'application/json; charset=utf-8', ...headers } };
}

function json(status: number, body: unknown): Answer {
  return { status, headers: { 'content-type': 'application/json; charset=utf-8' }, body: JSON.stringify(body) };
}

/** The shape of Nest's own error answers. */
function problem(status: number, message: string, headers: Readonly<Record<string, string>> = {}): Answer {
  const answer = json(status, { statusCode: status, message, error: STATUS_CODES[status] ?? 'Error' });
  return { ...answer, headers: { ...answer.headers, ...headers } };
}
