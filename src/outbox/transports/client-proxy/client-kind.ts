import type { GivenClientProxy } from './given-client.js';

/** Nest's own clients; 'other': one of the application's. */
export type ClientKind = 'rabbitmq' | 'kafka' | 'mqtt' | 'nats' | 'redis' | 'tcp' | 'grpc' | 'other';

const kinds: Readonly<Record<string, ClientKind>> = {
  ClientRMQ: 'rabbitmq',
  ClientKafka: 'kafka',
  ClientMqtt: 'mqtt',
  ClientNats: 'nats',
  ClientRedis: 'redis',
  ClientTCP: 'tcp',
  ClientGrpcProxy: 'grpc',
};

/** By the name of the class or of one that it extends: the package may be installed twice, or not at all. */
export function kindOf(client: GivenClientProxy): ClientKind {
  for (let one: unknown = Object.getPrototypeOf(client); one; one = Object.getPrototypeOf(one)) {
    const kind = kinds[one.constructor?.name ?? ''];
    if (kind) return kind;
  }
  return 'other';
}
