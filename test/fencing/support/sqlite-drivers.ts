import { createRequire } from 'node:module';
import { join } from 'node:path';
import Libsql from 'libsql';
import type { SqliteDatabase } from '../../../lib/fencing/index.ts';

export type OpenSqlite = SqliteDatabase & { close(): unknown };
export type SqliteDriver = new (path: string, options?: { timeout: number }) => OpenSqlite;

/** The class of node:sqlite. Node.js 20 has none. */
function nodeSqlite(): SqliteDriver | undefined {
  try {
    return createRequire(join(process.cwd(), 'package.json'))('node:sqlite').DatabaseSync;
  } catch {
    return undefined;
  }
}
const ofNode = nodeSqlite();

/** The libsql package gives no rows where better-sqlite3 refuses `all`: a statement that has none. */
class StrictLibsql extends Libsql {
  override prepare(sql: string): any {
    const statement: any = super.prepare(sql);
    const all = statement.all.bind(statement);
    statement.all = (...parameters: unknown[]) => {
      // Its own `pragma` needs that.
      if (statement.reader || sql.startsWith('PRAGMA')) return all(...parameters);
      throw new TypeError('This statement does not return data. Use run() instead');
    };
    return statement;
  }
}

/**
 * Drivers that need no compiler and no download but that of their packages. The libsql package has the interface of
 * better-sqlite3, which has a spec of its own: better-sqlite3.stores.spec.ts.
 */
export const SQLITE_DRIVERS: Readonly<Record<string, SqliteDriver>> = {
  libsql: StrictLibsql as SqliteDriver,
  ...(ofNode && { 'node:sqlite': ofNode }),
};
