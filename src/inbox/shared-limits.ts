import { HandlerRegistrationError } from '../errors/handler-registration.error.js';
import { Limiter, type Limits } from '../pressure/index.js';

interface NamedLimit {
  readonly definedBy: string;
  readonly limiter: Limiter;
}

/** The limits of all handlers of a process: those with one `limitBy` are one limit. */
export class SharedLimits {
  private readonly named = new Map<string, NamedLimit>();

  constructor(private readonly now: () => number = () => performance.now()) {}

  /**
   * Null: the handler has no limit.
   * @param handler `Class.method`
   * @throws HandlerRegistrationError for a name without numbers, or with other numbers than another handler of the name
   */
  limiterOf(handler: string, limits: Limits, limitBy: string | undefined): Limiter | null {
    if (limits.maxConcurrent === null && limits.ratePerSecond === null) {
      if (limitBy === undefined) return null;
      throw new HandlerRegistrationError(
        handler,
        `limitBy '${limitBy}' limits nothing; write maxConcurrent, ratePerSecond or both beside it`,
      );
    }
    if (limitBy === undefined) return new Limiter(limits, this.now);
    const known = this.named.get(limitBy);
    if (!known) {
      const limiter = new Limiter(limits, this.now);
      this.named.set(limitBy, { definedBy: handler, limiter });
      return limiter;
    }
    const { maxConcurrent, ratePerSecond } = known.limiter.limits;
    if (maxConcurrent === limits.maxConcurrent && ratePerSecond === limits.ratePerSecond) return known.limiter;
    throw new HandlerRegistrationError(
      handler,
      `limitBy '${limitBy}' is one limit, but ${describe(limits)} here and ${describe(known.limiter.limits)} at ${known.definedBy}; write the same numbers at both`,
    );
  }
}

function describe({ maxConcurrent, ratePerSecond }: Limits): string {
  const parts = [
    ...(maxConcurrent === null ? [] : [`maxConcurrent ${maxConcurrent}`]),
    ...(ratePerSecond === null ? [] : [`ratePerSecond ${ratePerSecond}`]),
  ];
  return `has ${parts.join(' and ')}`;
}
