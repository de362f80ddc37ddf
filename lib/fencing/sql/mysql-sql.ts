import type { FenceSql } from './dialect.ts';

/** MariaDB and MySQL: two statements on one connection, inside a transaction. */
export const mysqlFenceSql: FenceSql = {
  // Binary columns: no collation may take two keys for one, nor ignore a trailing space.
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource VARBINARY(2500) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL CHECK (token > 0),
  holder VARBINARY(255) NOT NULL DEFAULT ''
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;`,

  advance(table, claims) {
    const rows = claims.map((_claim, index) => {
      const position = index * 3 + 1;
      return `(CONVERT($${position} USING utf8mb4), CAST($${position + 1} AS SIGNED), $${position + 2})`;
    });
    const keys = claims.map((_claim, index) => `CONVERT($${index + 1} USING utf8mb4)`);
    return [
      {
        // Assignments run left to right: holder first, while token is still the old one.
        sql: `INSERT INTO ${table} (resource, token, holder) VALUES ${rows.join(', ')}
ON DUPLICATE KEY UPDATE
  holder = IF(VALUES(token) > token, VALUES(holder), holder),
  token = GREATEST(token, VALUES(token))`,
        parameters: claims.flatMap((claim) => [claim.key, claim.token, claim.holder]),
      },
      {
        // A locking read sees the newest row whatever the snapshot. The count of affected rows says nothing here.
        sql: `SELECT CONVERT(resource USING utf8mb4) AS resource, CAST(token AS CHAR) AS token,
  CONVERT(holder USING utf8mb4) AS holder
FROM ${table} WHERE resource IN (${keys.join(', ')}) ORDER BY ${table}.resource FOR UPDATE`,
        parameters: claims.map((claim) => claim.key),
      },
    ];
  },
};
