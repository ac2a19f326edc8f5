import { createConnection } from 'mysql2/promise';

/**
 * Lists the connections that the server still has with the given databases as their default, also from child
 * processes, and also after the database was dropped: `connection 12 of mailroom_test_x (Sleep)`.
 */
export async function openConnections(databases) {
  const found = [];
  for (const serverUrl of new Set(databases.map((database) => database.serverUrl))) {
    const names = new Set(databases.filter((database) => database.serverUrl === serverUrl).map(({ name }) => name));
    const connection = await createConnection(serverUrl).catch(nullIfGone);
    if (connection === null) continue;
    try {
      const [rows] = await connection.query('SHOW FULL PROCESSLIST');
      for (const { Id, db, Command, Info } of rows) {
        if (names.has(db)) found.push(`connection ${Id} of ${db} (${Info ?? Command})`);
      }
    } finally {
      await connection.end();
    }
  }
  return found;
}

/** A private server that the file removed has no connections. MySQL takes a moment to let go of its port. */
function nullIfGone(error) {
  if (['ECONNREFUSED', 'ECONNRESET'].includes(error.code)) return null;
  throw error;
}
