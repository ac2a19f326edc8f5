import type { IncomingMessage, ServerResponse } from 'node:http';
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
      mountOnExpress(adapter.getInstance(), endpoint);
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
  use(handler: (request: ExpressRequest, response: ServerResponse, next: () => void) => void): unknown;
  readonly router?: { readonly stack?: unknown[] };
}

/** One middleware at the head of the router: parsers that were registered before it must not see these requests. */
function mountOnExpress(app: ExpressApp, endpoint: WebhookEndpoint): void {
  app.use((request, response, next) => {
    const source = request.method === 'POST' ? endpoint.paths.get(request.path) : undefined;
    if (source === undefined) next();
    else void endpoint.serve(source, request, response);
  });
  const stack = app.router?.stack;
  const layer = stack?.pop();
  if (layer !== undefined) stack?.unshift(layer);
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
        await endpoint.serve(source, Object.assign(request.raw, { ip: request.ip }), hijacked.raw);
      });
    }
  });
}

/** For adapters that mailroom cannot mount on: says what to do instead. */
export function cannotMount(paths: readonly string[]): string {
  return `no HTTP server to mount ${paths.join(', ')} on: in a worker leave the paths as they are, elsewhere use the Express or Fastify adapter, or call InboxService.receive()`;
}
