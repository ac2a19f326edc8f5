import { promisify } from 'node:util';
import { gunzip } from 'node:zlib';
import { IntakeRefusedError } from '../errors/intake-refused.error.js';

const unpack = promisify(gunzip);

/**
 * The plain bytes of a gzip body. Never holds more than `limit` of them, however small the body is.
 * @throws IntakeRefusedError too-large above the limit; invalid for what is no gzip
 */
export async function inflate(compressed: Buffer, limit: number): Promise<Buffer> {
  try {
    const plain = await unpack(compressed, { maxOutputLength: Math.max(1, limit) });
    if (plain.length <= limit) return plain;
  } catch (error) {
    if ((error as { code?: unknown } | null)?.code !== 'ERR_BUFFER_TOO_LARGE')
      throw new IntakeRefusedError('invalid', 'the body is no gzip, though its content-encoding says so', {
        cause: error,
      });
  }
  throw new IntakeRefusedError('too-large', `the body has more than ${limit} bytes when it is unpacked`);
}
