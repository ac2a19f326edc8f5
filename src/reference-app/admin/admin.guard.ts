import {
  type CanActivate,
  type ExecutionContext,
  Inject,
  Injectable,
  NotFoundException,
  UnauthorizedException,
} from '@nestjs/common';
import { bearerMatches } from '../bearer-token.js';
import type { Environment } from '../environment.js';
import { environmentToken } from '../environment.token.js';

/** Lets callers in that have the ADMIN_TOKEN. Without one the routes are closed, and look as if they were not there. */
@Injectable()
export class AdminGuard implements CanActivate {
  constructor(@Inject(environmentToken) private readonly environment: Environment) {}

  canActivate(context: ExecutionContext): boolean {
    const { ADMIN_TOKEN } = this.environment;
    if (ADMIN_TOKEN === undefined) throw new NotFoundException();
    const { authorization } = context
      .switchToHttp()
      .getRequest<{ headers: Record<string, string | undefined> }>().headers;
    if (!bearerMatches(authorization, ADMIN_TOKEN))
      throw new UnauthorizedException('this route needs Authorization: Bearer with the ADMIN_TOKEN');
    return true;
  }
}
