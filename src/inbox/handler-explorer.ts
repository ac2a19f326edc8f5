import { Injectable } from '@nestjs/common';
import { DiscoveryService, MetadataScanner } from '@nestjs/core';
import type { InstanceWrapper } from '@nestjs/core/injector/instance-wrapper.js';
import { HandlerRegistrationError } from '../errors/handler-registration.error.js';
import type { HandlerRegistry } from './handler-registry.js';
import { inboxBatchHandlersOf } from './inbox-batch-handler.decorator.js';
import { inboxHandlersOf } from './inbox-handler.decorator.js';

/** Finds the methods that `@InboxHandler` and `@InboxBatchHandler` mark, on providers and controllers, however they were provided. */
@Injectable()
export class HandlerExplorer {
  constructor(
    private readonly discovery: DiscoveryService,
    private readonly scanner: MetadataScanner,
  ) {}

  /** @throws HandlerRegistrationError when a handler is request-scoped or cannot be registered */
  explore(registry: HandlerRegistry): void {
    // `useExisting` gives the same instance under a second name; its handlers count once.
    const seen = new Set<object>();
    for (const wrapper of [...this.discovery.getProviders(), ...this.discovery.getControllers()]) {
      this.exploreWrapper(wrapper, registry, seen);
    }
  }

  private exploreWrapper(wrapper: InstanceWrapper, registry: HandlerRegistry, seen: Set<object>): void {
    const prototype = prototypeOf(wrapper);
    if (!prototype) return;
    const className = prototype.constructor?.name ?? wrapper.name;
    for (const method of this.scanner.getAllMethodNames(prototype)) {
      const target = (prototype as Record<string, unknown>)[method];
      const handlers = typeof target === 'function' ? inboxHandlersOf(target) : [];
      const batches = typeof target === 'function' ? inboxBatchHandlersOf(target) : [];
      if (handlers.length + batches.length === 0) continue;
      const name = `${className}.${method}`;
      if (!wrapper.isDependencyTreeStatic()) {
        throw new HandlerRegistrationError(
          name,
          'its class is request-scoped or depends on one that is; a message has no request, so make them singletons',
        );
      }
      const instance = wrapper.instance as Record<string, (...args: unknown[]) => unknown>;
      if (seen.has(instance)) continue;
      for (const metadata of handlers) {
        registry.add(name, metadata, (message, context) => instance[method]?.(message, context));
      }
      for (const metadata of batches) {
        registry.addBatch(name, metadata, (messages, context) => instance[method]?.(messages, context));
      }
    }
    if (typeof wrapper.instance === 'object' && wrapper.instance !== null) seen.add(wrapper.instance);
  }
}

/** A request-scoped provider has no instance yet, but a class. */
function prototypeOf(wrapper: InstanceWrapper): object | null {
  const { instance, metatype } = wrapper;
  if (typeof instance === 'object' && instance !== null) return Object.getPrototypeOf(instance) as object | null;
  if (typeof metatype === 'function' && wrapper.inject === undefined)
    return (metatype.prototype as object | undefined) ?? null;
  return null;
}
