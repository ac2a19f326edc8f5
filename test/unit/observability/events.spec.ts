// The hook and the channel. No server.
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { eventChannel, type MailroomEvent, MailroomEvents } from '../../../src/observability/index.js';

const ignored: MailroomEvent = { name: 'ignored', source: 'shop', traceId: 't' };

test('a listener hears the events of its name until it is taken off', () => {
  const events = new MailroomEvents();
  const heard: unknown[] = [];
  const off = events.on('ignored', (event) => heard.push(event));
  events.emit(ignored);
  events.emit({ name: 'refused', source: 'shop', refusal: 'signature' });
  off();
  events.emit(ignored);
  expect(heard).toEqual([ignored]);
});

test('a listener that throws or rejects harms neither the emitting call nor the other listeners', async () => {
  const events = new MailroomEvents();
  const heard: unknown[] = [];
  events.on('ignored', () => {
    throw new Error('a listener that throws');
  });
  events.on('ignored', async () => {
    throw new Error('a listener that rejects');
  });
  events.on('ignored', (event) => heard.push(event));
  events.emit(ignored);
  // An unhandled rejection would end the test run.
  await new Promise((resolve) => setImmediate(resolve));
  expect(heard).toEqual([ignored]);
});

test('every event is published on the channel, with or without a listener', () => {
  const heard: unknown[] = [];
  const listen = (event: unknown) => heard.push(event);
  subscribe(eventChannel, listen);
  new MailroomEvents().emit(ignored);
  unsubscribe(eventChannel, listen);
  new MailroomEvents().emit(ignored);
  expect(heard).toEqual([ignored]);
});
