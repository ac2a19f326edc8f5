import type { HandlerSession } from './handler-session.js';

/** Sessions for handlers that run beside each other: kept while there is work, each with one handler at a time. */
export class SessionPool {
  private readonly free: HandlerSession[] = [];

  constructor(private readonly newSession: () => HandlerSession) {}

  /** Runs `work` with a session of its own. A session takes a connection at its first use only. */
  async use<T>(work: (session: HandlerSession) => Promise<T>): Promise<T> {
    const session = this.free.pop() ?? this.newSession();
    try {
      return await work(session);
    } finally {
      this.free.push(session);
    }
  }

  /** Gives the connections of idle sessions back to the application. */
  async close(): Promise<void> {
    await Promise.all(this.free.splice(0).map((session) => session.close()));
  }
}
