import type { IncomingMessage } from 'node:http';
import { IntakeRefusedError } from '../errors/intake-refused.error.js';
import { inflate } from './inflate.js';

/** How much of a refused body is read and thrown away, so that the sender can still read its answer. */
const discardLimit = 8 * 1_048_576;

/** A body as it will be stored, and the bytes that its signature is over where these are others. */
export interface ReceivedBody {
  readonly rawBody: Buffer;
  readonly signedBytes?: Buffer;
}

/**
 * The bytes of a request, at most `limit` of them, before anything has interpreted them.
 * @param gzip what the signature of a gzip body is over; null: no gzip is taken
 * @throws IntakeRefusedError too-large above the limit; unsupported for other compressed bodies; invalid for broken gzip
 */
export async function readBody(
  request: IncomingMessage & { readonly rawBody?: unknown },
  limit: number,
  gzip: 'plain' | 'wire' | null = null,
): Promise<ReceivedBody> {
  const encoding = (request.headers['content-encoding'] ?? 'identity').toLowerCase();
  const packed = gzip !== null && (encoding === 'gzip' || encoding === 'x-gzip');
  if (!packed && encoding !== 'identity') {
    throw new IntakeRefusedError(
      'unsupported',
      `content-encoding ${encoding.slice(0, 20)} is not taken; send the body as it is signed`,
    );
  }
  const bytes = await wireBytes(request, limit);
  // A parser that kept the bytes may have unpacked them: then these are what there is.
  if (!packed || (request.rawBody !== undefined && !isGzip(bytes))) return { rawBody: bytes };
  const rawBody = await inflate(bytes, limit);
  return gzip === 'wire' ? { rawBody, signedBytes: bytes } : { rawBody };
}

async function wireBytes(request: IncomingMessage & { readonly rawBody?: unknown }, limit: number): Promise<Buffer> {
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

/** The two bytes that every gzip begins with (RFC 1952). */
function isGzip(bytes: Buffer): boolean {
  return bytes[0] === 0x1f && bytes[1] === 0x8b;
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
