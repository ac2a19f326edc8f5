import { createServer } from 'node:net';

// Between the moment a free port is found and the moment the server binds it, somebody else may take it.
// Too few attempts: two launchers that start together can fail. Too many: a broken server is started in vain for long.
const attempts = 5;

/** Thrown by a start function of {@link onFreePort} when its port turned out to be taken. */
export class PortTakenError extends Error {}

/** A port of 127.0.0.1 that nobody listened on just now. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

/** Calls `start(port)` with free ports until it does not throw {@link PortTakenError}, five times at most. */
export async function onFreePort(start, choosePort = freePort) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await start(await choosePort());
    } catch (error) {
      if (!(error instanceof PortTakenError) || attempt === attempts) throw error;
    }
  }
}
