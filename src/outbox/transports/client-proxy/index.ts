export type { ClientProxyTransportOptions, Confirmation } from './client-proxy-options.js';
export { clientProxyTransport } from './client-proxy-transport.js';
export type { GivenClientProxy } from './given-client.js';
