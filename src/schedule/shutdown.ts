import type { Server, ServerResponse } from 'node:http';
import type { HttpAdapterHost } from '@nestjs/core';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';

/** What others close after us, and what may keep the process alive if they cannot. */
export interface Leftovers {
  /** Resolves when nothing is left. */
  closed(): Promise<void>;
  destroy(why: string): void;
}

/** A module that works in the background, as the shutdown sees it. */
export interface ShutdownPart {
  readonly name: string;
  /** How long readiness says 503 before anything stops. Default 0. */
  readonly readinessDelayMs?: number;
  /** Time for everything, counted from the first moment of the shutdown. Default: that of the others, else 25 s. */
  readonly deadlineMs?: number;
  /**
   * Takes nothing more from this moment on, and resolves when what is in work has ended or was given back. What still
   * runs after `graceMs` is given up.
   */
  stop(graceMs: number): Promise<void>;
  /** The application's connections that its work goes through. Those that are left at the deadline are destroyed. */
  readonly connections?: Leftovers | null;
  /** Closes connections and clients, after every part has stopped; what does not close within `graceMs` is cut off. */
  close(graceMs: number): Promise<void>;
}

const usualDeadlineMs = 25_000;
/** Time kept back for giving back what was given up and for closing: less, and orphans are left; more, and handlers lose it. */
const longestClosingMs = 2_000;
const closingShare = 0.2;

/**
 * The end of everything that mailroom does in an application, in one order and with one budget: readiness says 503 and
 * waits, then nothing new is taken, what is in work ends, claims and leases are given back, connections are closed. The
 * parts go through each step together. It runs once: whoever asks later, or a second signal, waits for the same end.
 */
export class Shutdown {
  private readonly logger = new MailroomLogger('Mailroom');
  private readonly parts: ShutdownPart[] = [];
  private running: Promise<void> | undefined;
  private cutOff: NodeJS.Timeout | undefined;

  constructor(private readonly adapters: Pick<HttpAdapterHost, 'httpAdapter'>) {}

  join(part: ShutdownPart): void {
    this.parts.push(part);
  }

  /** True from the first moment on: readiness must say 503, and nothing may start any more. */
  get hasBegun(): boolean {
    return this.running !== undefined;
  }

  /** Never rejects, and takes no longer than the longest deadline of a part. */
  run(): Promise<void> {
    this.running ??= this.inOrder();
    return this.running;
  }

  /** The HTTP server is closed by now; the application's own connections are closed before or after this. */
  async over(): Promise<void> {
    await Promise.all(this.parts.map(({ connections }) => connections?.closed()));
    clearTimeout(this.cutOff);
  }

  private async inOrder(): Promise<void> {
    const startedAt = performance.now();
    const left = (untilMs: number) => Math.max(0, startedAt + untilMs - performance.now());
    const deadlineMs = Math.max(...this.parts.map((part) => this.deadlineOf(part)), 0);
    const closingMs = Math.min(longestClosingMs, deadlineMs * closingShare);
    const server = this.httpServer();
    if (server?.listening) {
      server.prependListener('request', askToReconnect);
      await pause(Math.max(...this.parts.map(({ readinessDelayMs = 0 }) => readinessDelayMs), 0));
    }
    await this.each('stop', left(deadlineMs - closingMs / 2), (part) =>
      part.stop(left(Math.min(this.deadlineOf(part), deadlineMs) - closingMs)),
    );
    await this.each('close', left(deadlineMs) + closingSlackMs, (part) => part.close(left(deadlineMs)));
    this.cutOffLater(server, left(deadlineMs));
  }

  private deadlineOf({ deadlineMs }: ShutdownPart): number {
    return deadlineMs ?? (Math.max(...this.parts.map((part) => part.deadlineMs ?? 0), 0) || usualDeadlineMs);
  }

  /** All parts at once: a step of one must not wait for the step of another, nor fail with it. */
  private async each(step: 'stop' | 'close', ms: number, work: (part: ShutdownPart) => Promise<void>): Promise<void> {
    const ended = this.parts.map(async (part) => {
      try {
        if (await isLate(work(part), ms))
          this.logger.warn({ msg: 'a part did not end in time and was left behind', part: part.name, step });
      } catch (error) {
        this.logger.warn({ msg: 'a part did not end as it should', part: part.name, step, error: messageOf(error) });
      }
    });
    await Promise.all(ended);
  }

  /**
   * A sender that trickles, or a request that is never answered, would hold the HTTP server open for minutes; a statement
   * of the application that is never answered would hold its DataSource open for ever.
   */
  private cutOffLater(server: Server | undefined, ms: number): void {
    const cut = (times: number) => {
      server?.closeAllConnections?.();
      for (const { connections } of this.parts) connections?.destroy('the shutdown deadline has passed');
      // What was given up may open another one before the DataSource is closed.
      if (times > 1) this.cutOff = setTimeout(cut, cutEveryMs, times - 1).unref();
    };
    this.cutOff = setTimeout(cut, ms, cutTimes).unref();
  }

  private httpServer(): Server | undefined {
    return this.adapters.httpAdapter?.getHttpServer?.() as Server | undefined;
  }
}

const cutEveryMs = 250;
const cutTimes = 40;

/** Beyond the time that a part has for closing: it cuts off by itself at that time. */
const closingSlackMs = 250;

/** Answers from now on end their connection, so that clients that keep connections alive go to another instance in time. */
function askToReconnect(_request: unknown, response: ServerResponse): void {
  response.shouldKeepAlive = false;
}

/** True when `work` has not ended after `ms`; its end is then nobody's any more. Rejects as `work` does. */
export async function isLate(work: Promise<void>, ms: number): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<true>((resolve) => {
    timer = setTimeout(() => resolve(true), ms);
  });
  try {
    return await Promise.race([work.then(() => false as const), late]);
  } finally {
    clearTimeout(timer);
  }
}

function messageOf(error: unknown): string | undefined {
  return (error as Error | null)?.message;
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
