import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AbstractHttpAdapter } from '@nestjs/core';
import type { WebhookEndpoint } from './webhook-endpoint.js';

/**
 * Mounts the sources' paths on the application's HTTP server. Nothing of the framework's request pipeline runs before
 * them: a signature is over the bytes, which a body parser would have consumed.
 * @returns false when the application has no HTTP server, as a worker has none
 */
export async function mountWebhooks(
  adapter: AbstractHttpAdapter | undefined,
  endpoint: WebhookEndpoint,
): Promise<boolean> {
  switch (adapter?.getType?.()) {
    case 'express':
      mountOnExpress(adapter.getInstance(), adapter.getHttpServer?.(), endpoint);
      return true;
    case 'fastify':
      await mountOnFastify(adapter.getInstance(), endpoint);
      return true;
    default:
      return false;
  }
}

type ExpressRequest = IncomingMessage & { readonly path: string; readonly ip?: string };

interface ExpressApp {
  (request: IncomingMessage, response: ServerResponse): unknown;
  use(handler: (request: ExpressRequest, response: ServerResponse, next: () => void) => void): unknown;
  /** The prototype of its requests. */
  readonly request: object;
  readonly router?: { readonly stack?: unknown[] };
}

/**
 * Twice. The server asks mailroom before Express: Express gives every request another prototype, which takes more time
 * than everything that intake does. Where Express is served by a server that Nest does not know, a middleware at the head
 * of its router does the same, before parsers that were registered earlier.
 */
function mountOnExpress(app: ExpressApp, server: Server | undefined, endpoint: WebhookEndpoint): void {
  askBefore(app, server, (request, response) => {
    const source = request.method === 'POST' ? endpoint.paths.get(pathOf(request.url ?? '')) : undefined;
    if (source === undefined) app(request, response);
    else void endpoint.serve(source, request, response, () => addressOnExpress(app, request));
  });
  app.use((request, response, next) => {
    const source = request.method === 'POST' ? endpoint.paths.get(request.path) : undefined;
    if (source === undefined) next();
    else void endpoint.serve(source, request, response, () => request.ip);
  });
  const stack = app.router?.stack;
  const layer = stack?.pop();
  if (layer !== undefined) stack?.unshift(layer);
}

/** Puts `listener` in the place of Express among the server's listeners, whoever else listens. */
function askBefore(
  app: ExpressApp,
  server: Server | undefined,
  listener: (request: IncomingMessage, response: ServerResponse) => void,
): void {
  const listeners = server?.rawListeners?.('request') as ExpressApp[] | undefined;
  if (!server || !listeners?.includes(app)) return;
  server.removeAllListeners('request');
  for (const one of listeners) server.on('request', one === app ? listener : one);
}

/** Other forms than `/path?query`, which only a proxy or a probe writes, are left to Express. */
function pathOf(url: string): string {
  const end = url.indexOf('?');
  return end === -1 ? url : url.slice(0, end);
}

/** What Express would call `request.ip`: it knows which proxies are trusted. */
function addressOnExpress(app: ExpressApp, { headers, socket }: IncomingMessage): string | undefined {
  const request: { readonly ip?: string } = Object.create(app.request, {
    headers: { value: headers },
    socket: { value: socket },
  });
  return request.ip;
}

interface FastifyReply {
  code(status: number): FastifyReply;
  headers(headers: Readonly<Record<string, string>>): FastifyReply;
  send(body: string | Buffer): FastifyReply;
}

interface FastifyRequest {
  readonly raw: IncomingMessage;
  readonly ip: string;
  readonly body: Buffer | undefined;
}

interface FastifyApp {
  register(plugin: (scope: FastifyApp) => Promise<void>): PromiseLike<unknown>;
  removeAllContentTypeParsers(): void;
  addContentTypeParser(
    type: string,
    parser: (request: unknown, payload: unknown, done: (error: Error | null, body?: unknown) => void) => void,
  ): void;
  post(path: string, options: object, handler: (request: FastifyRequest, reply: FastifyReply) => unknown): unknown;
}

/** A scope of its own, so that its parsers (none: the bytes are read here) do not touch the application's. */
async function mountOnFastify(app: FastifyApp, endpoint: WebhookEndpoint): Promise<void> {
  await app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    // Leaves the stream alone: the endpoint reads it with its own limit.
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
    for (const [path, source] of endpoint.paths) {
      scope.post(path, { bodyLimit: Number.MAX_SAFE_INTEGER }, async (request, reply) => {
        const hijacked = reply as FastifyReply & { hijack(): void; readonly raw: ServerResponse };
        hijacked.hijack();
        await endpoint.serve(source, request.raw, hijacked.raw, () => request.ip);
      });
    }
  });
}

/** For adapters that mailroom cannot mount on: says what to do instead. */
export function cannotMount(paths: readonly string[]): string {
  return `no HTTP server to mount ${paths.join(', ')} on: in a worker leave the paths as they are, elsewhere use the Express or Fastify adapter, or call InboxService.receive()`;
}
