import type { PoolOptions } from 'mysql2';
import type { DataSource } from 'typeorm';
import { InvalidOptionsError } from '../errors/invalid-options.error.js';

interface Endpoint {
  readonly url?: string;
  readonly host?: string;
  readonly port?: number;
  readonly username?: string;
  readonly password?: string;
  readonly database?: string;
  readonly ssl?: unknown;
  readonly socketPath?: string;
  readonly connectTimeout?: number;
}

interface MysqlDataSourceOptions extends Endpoint {
  readonly type: string;
  readonly replication?: { readonly master: Endpoint };
  readonly extra?: Readonly<Record<string, unknown>>;
}

/**
 * Where the application's TypeORM DataSource writes, as options for a pool of our own. With replication that is the
 * master. Time zone, number and date settings of the application are not taken over: no Date and no number beyond 2^53
 * crosses our connections.
 * @throws InvalidOptionsError when the DataSource is not for MySQL or MariaDB
 */
export function connectionConfig(dataSource: Pick<DataSource, 'options'>): PoolOptions {
  const options = dataSource.options as unknown as MysqlDataSourceOptions;
  if (options.type !== 'mysql' && options.type !== 'mariadb') {
    throw new InvalidOptionsError(
      'dataSource.type',
      options.type,
      "mailroom needs a TypeORM DataSource of type 'mysql' or 'mariadb'",
    );
  }
  const endpoint = { ...options, ...options.replication?.master };
  const { host, port, user, password, database } = { ...addressOf(endpoint), ...fromUrl(endpoint.url) };
  return {
    ...(endpoint.socketPath ? { socketPath: endpoint.socketPath } : { host: host ?? 'localhost', port: port ?? 3306 }),
    ...(user === undefined ? {} : { user }),
    ...(password === undefined ? {} : { password }),
    ...(database === undefined ? {} : { database }),
    ...(endpoint.ssl ? { ssl: endpoint.ssl as NonNullable<PoolOptions['ssl']> } : {}),
    connectTimeout: endpoint.connectTimeout ?? 3_000,
  };
}

/** How many connections the application's own pool has at most: those that handlers use. */
export function applicationPoolSize(dataSource: DataSource): number {
  const options = dataSource.options as unknown as MysqlDataSourceOptions & { readonly poolSize?: number };
  const limit = options.extra?.connectionLimit;
  return typeof limit === 'number' ? limit : (options.poolSize ?? driverPoolSize);
}

/** What mysql2 takes when nobody says anything. */
const driverPoolSize = 10;

type Address = Pick<PoolOptions, 'host' | 'port' | 'user' | 'password' | 'database'>;

function addressOf(endpoint: Endpoint): Address {
  return defined({
    host: endpoint.host,
    port: endpoint.port,
    user: endpoint.username,
    password: endpoint.password,
    database: endpoint.database,
  });
}

function fromUrl(url: string | undefined): Address {
  if (url === undefined) return {};
  const parsed = new URL(url);
  return defined({
    host: decodeURIComponent(parsed.hostname) || undefined,
    port: parsed.port ? Number(parsed.port) : undefined,
    user: decodeURIComponent(parsed.username) || undefined,
    password: decodeURIComponent(parsed.password) || undefined,
    database: decodeURIComponent(parsed.pathname.slice(1)) || undefined,
  });
}

/** The same object without its undefined fields: a URL without a port must not hide the port option. */
function defined(fields: Readonly<Record<string, unknown>>): Address {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}
