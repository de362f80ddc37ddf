import { PGlite } from '@electric-sql/pglite';

/** First bytes of the messages that PostgreSQL's extended query protocol is made of, up to its Sync. */
const EXTENDED_QUERY = new Set(['P', 'B', 'D', 'E', 'C', 'H'].map((type) => type.charCodeAt(0)));

/**
 * An embedded PostgreSQL whose one session many connections share, as they would share a server.
 *
 * The socket server passes messages on one by one and keeps connections apart only while `isInTransaction` says so. A statement
 * with parameters is several messages (Parse, Bind, Execute, Sync), so outside transactions one connection would run what
 * another has just prepared. `fence.claim` is such a statement: hence a statement counts as a transaction until its Sync.
 */
export class SharedDatabase extends PGlite {
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
