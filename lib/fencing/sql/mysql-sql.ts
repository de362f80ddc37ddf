import { listOfClaims } from './claim-parameters.ts';
import type { FenceSql } from './dialect.ts';

/** MariaDB and MySQL: two statements on one connection, inside a transaction. */
export const mysqlFenceSql: FenceSql = {
  // Binary columns: no collation may take two keys for one, nor ignore a trailing space.
  ddl: (table) => `CREATE TABLE IF NOT EXISTS ${table} (
  resource VARBINARY(2500) NOT NULL PRIMARY KEY,
  token BIGINT NOT NULL CHECK (token > 0),
  holder VARBINARY(255) NOT NULL DEFAULT ''
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC SELECT '' AS resource, 1 AS token, '' AS holder;`,

  // mysql2 and ORMs over it put parameters into the text, with backslashes that NO_BACKSLASH_ESCAPES takes literally. The
  // character set of the connection may lack some of a key.
  encode: (text) => Buffer.from(text).toString('hex'),

  // A savepoint ends with its transaction: with a deadlock whose error was swallowed, or a statement that commits implicitly.
  mark: 'SAVEPOINT redlock_fence',
  checkMark: () => 'RELEASE SAVEPOINT redlock_fence',

  advance(table, count) {
    const rows = listOfClaims(
      count,
      (key, token, holder) => `(UNHEX(${key}), CAST(${token} AS SIGNED), UNHEX(${holder}))`,
    );
    const keys = listOfClaims(count, (key) => `UNHEX(${key})`);
    return [
      // Assignments run left to right: holder first, while token is still the old one.
      `INSERT INTO ${table} (resource, token, holder) VALUES ${rows}
ON DUPLICATE KEY UPDATE
  holder = IF(VALUES(token) > token, VALUES(holder), holder),
  token = GREATEST(token, VALUES(token))`,
      // Locking reads see the newest rows whatever the snapshot. The count of affected rows says nothing here.
      `SELECT LOWER(HEX(resource)) AS resource, CAST(token AS CHAR) AS token,
  CONVERT(holder USING utf8mb4) AS holder,
  (SELECT CAST(f.token AS CHAR) FROM ${table} AS f WHERE f.resource = '' LOCK IN SHARE MODE) AS floor
FROM ${table} WHERE resource IN (${keys}) ORDER BY ${table}.resource FOR UPDATE`,
    ];
  },
};
