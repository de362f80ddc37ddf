import { PGlite } from '@electric-sql/pglite';
import { PGLiteSocketServer } from '@electric-sql/pglite-socket';

/** The first bytes of the messages that PostgreSQL's extended query protocol is made of, up to its Sync. */
const EXTENDED_QUERY = new Set(['P', 'B', 'D', 'E', 'C', 'H'].map((type) => type.charCodeAt(0)));

/**
 * An embedded PostgreSQL whose one session many connections share, as they would share a server.
 *
 * The socket server passes messages on one by one and keeps connections apart only while `isInTransaction` says so. A statement
 * with parameters is several messages (Parse, Bind, Execute, Sync), so outside transactions one connection would run what
 * another has just prepared. `fence.claim` is such a statement: hence a statement counts as a transaction until its Sync.
 */
class SharedDatabase extends PGlite {
  #isInStatement = false;

  override isInTransaction(): boolean {
    return this.#isInStatement || super.isInTransaction();
  }

  override async execProtocolRawStream(
    ...[message, options]: Parameters<PGlite['execProtocolRawStream']>
  ): Promise<void> {
    this.#isInStatement = EXTENDED_QUERY.has(message[0] ?? 0);
    return super.execProtocolRawStream(message, options);
  }
}

/**
 * The database in a process of its own: creating it keeps a processor busy for seconds, and the show goes on meanwhile. Sends
 * its URL to its parent once it accepts connections, and ends when the parent is gone.
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
