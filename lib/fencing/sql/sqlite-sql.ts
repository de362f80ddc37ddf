import type { FenceSql } from './dialect.ts';

/** SQLite 3.35 or newer (RETURNING): one statement, best in a transaction begun with BEGIN IMMEDIATE. */
export const sqliteFenceSql: FenceSql = {
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource TEXT NOT NULL PRIMARY KEY,
  token INTEGER NOT NULL CHECK (token > 0),
  holder TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;`,

  advance(table, claims) {
    const rows = claims.map((_claim, index) => {
      const position = index * 3 + 1;
      return `($${position}, CAST($${position + 1} AS INTEGER), $${position + 2})`;
    });
    return [
      {
        sql: `INSERT INTO ${table} AS f (resource, token, holder) VALUES ${rows.join(', ')}
ON CONFLICT (resource) DO UPDATE SET
  holder = CASE WHEN excluded.token > f.token THEN excluded.holder ELSE f.holder END,
  token = MAX(f.token, excluded.token)
RETURNING resource, CAST(token AS TEXT) AS token, holder`,
        parameters: claims.flatMap((claim) => [claim.key, claim.token, claim.holder]),
      },
    ];
  },
};
