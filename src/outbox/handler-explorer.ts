import type { DiscoveryService, MetadataScanner } from '@nestjs/core';
import { HandlerRegistrationError } from '../errors/handler-registration.error.js';
import type { OutboxHandlerRegistry } from './handler-registry.js';
import { outboxHandlersOf } from './transports/local-transport.js';

/**
 * Finds the methods that `@OutboxHandler` marks, on providers and controllers, however they were provided.
 * @throws HandlerRegistrationError when a handler is request-scoped or cannot be registered
 */
export function exploreOutboxHandlers(
  discovery: DiscoveryService,
  scanner: MetadataScanner,
  registry: OutboxHandlerRegistry,
): void {
  // `useExisting` gives the same instance under a second name; its handlers count once.
  const seen = new Set<unknown>();
  for (const wrapper of [...discovery.getProviders(), ...discovery.getControllers()]) {
    const { instance, metatype } = wrapper;
    const known = typeof instance === 'object' && instance !== null;
    const prototype: unknown = known
      ? Object.getPrototypeOf(instance)
      : typeof metatype === 'function' && wrapper.inject === undefined
        ? metatype.prototype
        : null;
    if (typeof prototype !== 'object' || prototype === null || seen.has(instance)) continue;
    if (known) seen.add(instance);
    for (const method of scanner.getAllMethodNames(prototype)) {
      const target = (prototype as Record<string, unknown>)[method];
      const handlers = typeof target === 'function' ? outboxHandlersOf(target) : [];
      const name = `${prototype.constructor?.name ?? wrapper.name}.${method}`;
      if (handlers.length > 0 && !wrapper.isDependencyTreeStatic()) {
        throw new HandlerRegistrationError(
          name,
          'its class is request-scoped or depends on one that is; a message has no request, so make them singletons',
        );
      }
      const callable = instance as Record<string, (...args: unknown[]) => unknown>;
      for (const metadata of handlers) {
        registry.add(name, metadata, (message, context) => callable[method]?.(message, context));
      }
    }
  }
}
