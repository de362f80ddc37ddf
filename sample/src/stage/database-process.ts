import { PGLiteSocketServer } from '@electric-sql/pglite-socket';
import { SharedDatabase } from './shared-database.ts';

/**
 * An embedded PostgreSQL in a process of its own: creating it keeps a processor busy for seconds, and the conductor's
 * timeline must go on meanwhile. Sends its URL to the parent once it accepts connections; ends when the parent is gone.
 */
async function serve(): Promise<void> {
  const database = new SharedDatabase();
  await database.waitReady;
  const server = new PGLiteSocketServer({ db: database, port: 0, maxConnections: 100 });
  await server.start();
  if (!process.connected) return;
  process.send?.({ url: `postgres://postgres@${server.getServerConn()}/postgres` });
}

// Ctrl-C reaches every process of the terminal; the conductor decides when the database goes.
process.on('SIGINT', () => undefined);
process.on('disconnect', () => process.exit(0));
serve().catch((error: unknown) => {
  process.send?.({ error: error instanceof Error ? error.message : String(error) });
  process.exitCode = 1;
});
