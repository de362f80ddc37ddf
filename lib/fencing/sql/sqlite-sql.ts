import { listOfClaims } from './claim-parameters.ts';
import type { FenceSql } from './dialect.ts';

/** SQLite 3.35 or newer (RETURNING): one statement, best in a transaction begun with BEGIN IMMEDIATE. */
export const sqliteFenceSql = {
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource TEXT NOT NULL PRIMARY KEY,
  token INTEGER NOT NULL CHECK (token > 0),
  holder TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;`,

  // It ends with its transaction, such as by INSERT OR ROLLBACK whose error was swallowed.
  mark: 'SAVEPOINT redlock_fence',
  checkMark: () => 'RELEASE SAVEPOINT redlock_fence',

  advance(table, count) {
    const rows = listOfClaims(
      count,
      (key, token, holder) => `(${key}, CAST(${token} AS INTEGER), ${holder})`,
    );
    return [
      // MikroORM 6 looks for RETURNING with a blank before it, to know that there are rows.
      `INSERT INTO ${table} AS f (resource, token, holder) VALUES ${rows}
ON CONFLICT (resource) DO UPDATE SET
  holder = CASE WHEN excluded.token > f.token THEN excluded.holder ELSE f.holder END,
  token = MAX(f.token, excluded.token) RETURNING resource, CAST(token AS TEXT) AS token, holder,
  (SELECT CAST(token AS TEXT) FROM ${table} WHERE resource = '') AS floor`,
    ];
  },
} satisfies FenceSql;
