import { createRequire } from 'node:module';
import { type Type } from '@nestjs/common';
import { MailroomLogger } from '../observability/logging/mailroom-logger.js';
import { descriptions, type RouteDescription } from './open-api-routes.js';

type Decorate = (options: object) => MethodDecorator;

/** What is used of `@nestjs/swagger`. */
interface SwaggerDecorators {
  readonly ApiTags: (...tags: string[]) => ClassDecorator;
  readonly ApiOperation: Decorate;
  readonly ApiQuery: Decorate;
  readonly ApiParam: Decorate;
  readonly ApiBody: Decorate;
  readonly ApiResponse: Decorate;
}

/**
 * Describes the routes of the controller for `SwaggerModule.createDocument` of the application. Without `@nestjs/swagger`
 * nothing is done: it is an optional peer.
 */
export function describeRoutes(controller: Type): void {
  const swagger = loadSwagger();
  if (!swagger) return;
  swagger.ApiTags('mailroom replay')(controller);
  for (const [method, description] of Object.entries(descriptions))
    describeRoute(swagger, controller.prototype, method, description);
}

function describeRoute(
  { ApiOperation, ApiQuery, ApiParam, ApiBody, ApiResponse }: SwaggerDecorators,
  prototype: object,
  method: string,
  { summary, id, query = {}, body, status = 200, answer, refusals = {} }: RouteDescription,
): void {
  const descriptor = Object.getOwnPropertyDescriptor(prototype, method);
  if (!descriptor) throw new Error(`the controller has no method ${method}`);
  const decorators = [
    ApiOperation({ summary }),
    ...(id
      ? [ApiParam({ name: 'id', description: id, schema: { type: 'string', pattern: '^[1-9][0-9]{0,19}$' } })]
      : []),
    ...Object.entries(query).map(([name, schema]) => ApiQuery({ name, required: false, ...schema })),
    ...(body ? [ApiBody({ schema: body })] : []),
    ApiResponse({ status, description: 'done', schema: answer }),
    ...Object.entries({ 401: 'nobody', 403: 'somebody else', ...refusals }).map(([code, why]) =>
      ApiResponse({ status: Number(code), description: why }),
    ),
  ];
  for (const decorate of decorators) decorate(prototype, method, descriptor);
}

/**
 * Null: it is not installed, or cannot be loaded here. That costs the description, never the routes. ERR_REQUIRE_ESM comes
 * from test runners whose `require` loads no ES modules.
 */
function loadSwagger(): SwaggerDecorators | null {
  try {
    return createRequire(import.meta.url)('@nestjs/swagger') as SwaggerDecorators;
  } catch (error) {
    const { code, message } = error as { readonly code?: unknown; readonly message?: string };
    if (code !== 'MODULE_NOT_FOUND' && code !== 'ERR_REQUIRE_ESM')
      new MailroomLogger('ReplayModule').warn({
        msg: '@nestjs/swagger is there but cannot be loaded',
        code,
        error: message,
      });
    return null;
  }
}
