// OpenTelemetry is optional: without its API traces are handed on as they came. No server.
import { jest } from '@jest/globals';
import { MailroomEvents } from '../../../src/observability/index.js';

const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';

/** Opened where loading the API fails as given. */
async function openWithout(error: Error) {
  jest.resetModules();
  jest.unstable_mockModule('@opentelemetry/api', () => {
    throw error;
  });
  // The same copy of Nest that the module gets.
  const { Logger } = await import('@nestjs/common');
  const warnings = jest.spyOn(Logger.prototype, 'warn').mockImplementation(() => undefined);
  const { MailroomTracing } = await import('../../../src/observability/tracing/mailroom-tracing.js');
  return { tracing: await MailroomTracing.open(new MailroomEvents()), warnings };
}

const missing = Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });

test.each([
  ['is not installed', missing, 0],
  ['cannot be loaded, which is told', new Error('broken'), 1],
])('where the API %s, traces are handed on and everything runs', async (_what, error, lines) => {
  const { tracing, warnings } = await openWithout(error);
  try {
    expect(await tracing.receive('shop', { traceparent }, async (trace) => trace.traceparent)).toBe(traceparent);
    const attempt = { box: 'inbox', operation: 'handle', destination: 'shop', type: 'paid', messages: [] } as const;
    expect(await tracing.attempt(attempt, async () => 'done')).toBe('done');
    expect(tracing.arriving({ traceparent }).traceparent).toBe(traceparent);
    expect(tracing.carried()).toEqual({});
    tracing.onApplicationShutdown();
    expect(warnings).toHaveBeenCalledTimes(lines);
  } finally {
    warnings.mockRestore();
  }
});
