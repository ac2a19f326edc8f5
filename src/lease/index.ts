/**
 * Who may consume a lane.
 *
 * One row in `mailroom_lease` per lane or chore is the authority (lease-row.store.ts). With `lease.backend: 'redis'` a
 * redlock key stands in front of it (redis-gate.ts), so that idle instances do not poll the database; it may be wrong,
 * frozen or emptied without harm to correctness.
 *
 *   enter (gate) -> look for work -> take (row, fence + 1) -> work, renewed every ttl/3 -> release
 *
 * Guarantees: the fence in the row rises with each new holder; the signal aborts before the lease can run out; losing a
 * lease is no error, "not available" is null.
 *
 * Window: between the end of a lease and the moment its former holder notices, both may run a handler. The fence lets
 * only the new one commit.
 */
export { type Gate, type GatePass, openGate } from './gate.js';
export { newInstanceId } from './instance-id.js';
export { InstanceMembership } from './instance-membership.js';
export type { Lease, LeaseLoss, LeaseObserver } from './lease.js';
export { type Entrance, LeaseKeeper, type LeaseTimes } from './lease-keeper.js';
export { LeaseRowStore, type OnTaken } from './lease-row.store.js';
export { type GivenRedisClient, lookupClient, pubSubClient } from './redis-client.js';
export { RedisGate } from './redis-gate.js';
