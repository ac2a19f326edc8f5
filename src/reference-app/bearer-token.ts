import { createHash, timingSafeEqual } from 'node:crypto';

/** True if the header is `Bearer <token>`. Compared in constant time, by hashes, so that not even the length shows. */
export function bearerMatches(authorization: string | undefined, token: string): boolean {
  const given = /^Bearer (.+)$/i.exec(authorization ?? '')?.[1];
  return timingSafeEqual(digest(given ?? ''), digest(token)) && given !== undefined;
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
