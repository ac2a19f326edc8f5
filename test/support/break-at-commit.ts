type Callback = (error: unknown, ...results: unknown[]) => void;
interface Raw {
  query(sql: unknown, ...rest: unknown[]): unknown;
  destroy(): void;
}

/** From now on the connection, taken from under a query runner, breaks at its COMMIT: after it was carried out, or before it was sent. */
export function breakAtCommit(connection: unknown, carriedOut: boolean): void {
  const raw = connection as Raw;
  const query = raw.query.bind(raw);
  raw.query = (sql, ...rest) => {
    const done = rest.at(-1) as Callback;
    if (!/^COMMIT\b/.test(String(sql))) return query(sql, ...rest);
    const fail = () => {
      raw.destroy();
      done(Object.assign(new Error('Connection lost'), { code: 'PROTOCOL_CONNECTION_LOST', fatal: true }));
    };
    if (!carriedOut) return fail();
    return query(sql, ...rest.slice(0, -1), fail);
  };
}
