import type { IncomingMessage } from 'node:http';
import { IntakeRefusedError } from '../errors/intake-refused.error.js';

/** How much of a refused body is read and thrown away, so that the sender can still read its answer. */
const discardLimit = 8 * 1_048_576;

/**
 * The bytes of a request, at most `limit` of them, before anything has interpreted them.
 * @throws IntakeRefusedError too-large above the limit; unsupported for compressed bodies and consumed streams
 */
export async function readBody(
  request: IncomingMessage & { readonly rawBody?: unknown },
  limit: number,
): Promise<Buffer> {
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    throw new IntakeRefusedError(
      'unsupported',
      `content-encoding ${encoding.slice(0, 20)} is not taken; send the body as it is signed`,
    );
  }
  if (Number(request.headers['content-length'] ?? 0) > limit) throw tooLarge(limit);
  // Nest's own parser ran first, as it does when the route was added after it; with rawBody it kept the bytes.
  if (Buffer.isBuffer(request.rawBody)) return within(request.rawBody, limit);
  if (request.readableEnded || request.readableDidRead) {
    throw new Error(
      'a body parser consumed the request before mailroom could read its bytes; mount mailroom before other parsers, or create the application with { rawBody: true }',
    );
  }
  return collect(request, limit);
}

function collect(request: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const done = () => {
      request.off('data', onData).off('end', onEnd).off('error', onError).off('close', onClose);
    };
    const onData = (chunk: Buffer) => {
      size += chunk.length;
      if (size <= limit) {
        chunks.push(chunk);
        return;
      }
      done();
      reject(tooLarge(limit));
    };
    const onEnd = () => {
      done();
      resolve(chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks, size));
    };
    const onError = () => {
      done();
      reject(new AbortedPushError());
    };
    const onClose = onError;
    request.on('data', onData).on('end', onEnd).on('error', onError).on('close', onClose);
  });
}

/** The sender went away in the middle of its body: nothing to store, nobody to answer. */
export class AbortedPushError extends Error {}

/** Reads on for a while after a refusal, then cuts: closing at once would reset the connection under the answer. */
export function discardRest(request: IncomingMessage): void {
  let size = 0;
  request.on('error', () => undefined);
  request.on('data', (chunk: Buffer) => {
    size += chunk.length;
    if (size > discardLimit) request.destroy();
  });
  request.resume();
}

function within(body: Buffer, limit: number): Buffer {
  if (body.length > limit) throw tooLarge(limit);
  return body;
}

function tooLarge(limit: number): IntakeRefusedError {
  return new IntakeRefusedError('too-large', `the body has more than ${limit} bytes`);
}
