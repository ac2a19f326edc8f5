/**
 * Whether the lines of a trace are among the share that is shown. By the trace and not by chance, so that what is shown of
 * a message is all of it: its arrival, its handling and what it sent, on whatever instance. FNV-1a, http://www.isthe.com/chongo/tech/comp/fnv/
 */
export function isSampled(traceId: string, rate: number): boolean {
  if (rate >= 1) return true;
  let hash = 0x811c9dc5;
  for (let at = 0; at < traceId.length; at++) hash = Math.imul(hash ^ traceId.charCodeAt(at), 0x01000193);
  // Its high bits hardly depend on the last characters: they are mixed once more.
  hash = Math.imul(hash ^ (hash >>> 15), 0x85ebca6b);
  hash ^= hash >>> 13;
  return (hash >>> 0) / 0x1_0000_0000 < rate;
}
