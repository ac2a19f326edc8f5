/** What is needed of a mysql2 connection to end it; TypeORM hands it out untyped. */
interface Destroyable {
  destroy(): void;
  readonly stream?: { destroy?(error?: Error): void };
}

/**
 * Ends a connection at once. mysql2's own `destroy()` only half-closes the socket, so a statement in flight would never
 * settle: the socket is destroyed with an error, which also rejects that statement. The server rolls the open
 * transaction back as soon as it notices.
 */
export function destroyConnection(connection: unknown, why: string): void {
  const target = connection as Destroyable;
  target.stream?.destroy?.(
    Object.assign(new Error(`connection destroyed: ${why}`), { code: 'PROTOCOL_CONNECTION_LOST' }),
  );
  target.destroy();
}
