// Servers that the user names. They are greeted once, to say early and clearly when they are away, and never touched.
import { acceptsAt, databaseAt, redisAt } from './probe.mjs';

/**
 * The server of DATABASE_URL as `{ name, version, address, url, variable }`. Throws when the URL is not one, when nothing
 * answers there, or when it is not the wanted kind ('mariadb', 'mysql', 'any'). Messages never hold the URL's password.
 */
export async function givenDatabase(url, wanted) {
  const { host, port, address } = parse('DATABASE_URL', url, ['mysql:', 'mariadb:'], 3306);
  const { kind, version } = await answering('DATABASE_URL', address, () => databaseAt(host, port));
  if (wanted !== 'any' && wanted !== kind) {
    throw new Error(
      `DATABASE_URL names ${kind} ${version} on ${address}, but ${wanted} is asked for. Name a ${wanted} server, or unset DATABASE_URL to get a private one.`,
    );
  }
  return { name: kind, version, address, url, variable: 'DATABASE_URL' };
}

/** The server of REDIS_URL, in the same shape; `version` is null where Redis wants a password before it tells. */
export async function givenRedis(url) {
  const { host, port, address, protocol } = parse('REDIS_URL', url, ['redis:', 'rediss:'], 6379);
  const { version } = await answering('REDIS_URL', address, async () => {
    if (protocol === 'redis:') return redisAt(host, port);
    await acceptsAt(host, port);
    return { version: null };
  });
  return { name: 'redis', version, address, url, variable: 'REDIS_URL' };
}

function parse(variable, url, protocols, defaultPort) {
  const parsed = URL.canParse(url) ? new URL(url) : null;
  if (parsed === null || !protocols.includes(parsed.protocol) || parsed.hostname === '') {
    throw new Error(`${variable} is not a URL that starts with ${protocols.map((name) => `${name}//`).join(' or ')}.`);
  }
  const host = parsed.hostname.replace(/^\[|\]$/g, '');
  const port = Number(parsed.port || defaultPort);
  return { host, port, address: `${parsed.hostname}:${port}`, protocol: parsed.protocol };
}

async function answering(variable, address, ask) {
  try {
    return await ask();
  } catch (cause) {
    const message = `${variable} names ${address}, which gives no answer (${cause.code ?? cause.message}). Start that server, or unset ${variable} to get a private one.`;
    throw new Error(message, { cause });
  }
}
