/** What became of one push to somebody's sockets. */
export type PushResult =
  /** A socket acknowledged it. */
  | 'acked'
  /** There is no socket. */
  | 'none'
  /** Whether there is a socket elsewhere could not be asked. */
  | 'unknown'
  /** The sockets that it was written to closed before they answered. */
  | 'closed'
  /** Not written: too much that was written before is unanswered. */
  | 'busy'
  /** Written, and not answered in time. */
  | 'unanswered';

/** The first of them that is there says what became of a push to several sockets. */
const weightiest: readonly PushResult[] = ['acked', 'unanswered', 'busy', 'closed', 'unknown', 'none'];

export function combined(results: readonly PushResult[]): PushResult {
  return weightiest.find((result) => results.includes(result)) ?? 'none';
}

/** Resolves with the first acknowledgement, else when all are there. Rejects with the first that does. */
export function firstAck(pushes: readonly Promise<PushResult>[]): Promise<PushResult> {
  return new Promise((resolve, reject) => {
    for (const push of pushes) void push.then((result) => result === 'acked' && resolve(result), reject);
    void Promise.all(pushes).then((results) => resolve(combined(results)), reject);
  });
}

export function isPushResult(value: unknown): value is PushResult {
  return weightiest.some((result) => result === value);
}
