import type { FenceFinding } from '../fence.ts';
import { fenceSqlOf } from '../sql/dialect.ts';
import type { SqlDialect, SqlRow } from '../sql/sql-executor.ts';
import type { SqlSteps } from '../sql/sql-steps.ts';

/** What a table of each dialect must be, and how to look at it. */
interface CheckSql {
  /** One row per column, all text: name, type, and what else is `wrong` with the column or its table; none without the table. */
  readonly columns: (schema: string | undefined, table: string) => string;
  readonly types: Readonly<Record<'resource' | 'token' | 'holder', RegExp>>;
  /** Whether `ddl` makes the row of the floor. */
  readonly hasFloor: boolean;
}

const CHECK_SQL: Readonly<Record<SqlDialect, CheckSql>> = {
  postgresql: {
    columns: (
      schema,
      table,
    ) => `SELECT CAST(attname AS text) AS name, format_type(atttypid, atttypmod) AS type,
  CASE WHEN relpersistence <> 'p' THEN 'the table is not logged: a crash of the server empties it'
    WHEN NOT COALESCE(collisdeterministic, true) THEN 'its collation takes different keys for one' END AS wrong
FROM pg_class AS c JOIN pg_attribute AS a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
LEFT JOIN pg_collation AS l ON l.oid = attcollation
WHERE c.oid = to_regclass('${schema === undefined ? '' : `${schema}.`}${table}')`,
    types: {
      resource: /^(text|character varying.*)$/,
      token: /^(bigint|numeric(\((19|[2-9]\d)\b.*)?)$/,
      holder: /^(text|character varying.*)$/,
    },
    hasFloor: true,
  },
  mysql: {
    columns: (schema, table) => `SELECT COLUMN_NAME AS name, CAST(COLUMN_TYPE AS CHAR) AS type,
  CASE WHEN COALESCE(ENGINE, '') <> 'InnoDB' THEN CONCAT('its engine ', COALESCE(ENGINE, 'of a view'), ' has no transactions with locks of rows: stale writes are not refused')
    WHEN (COLUMN_NAME = 'resource') <> (COLUMN_KEY IN ('PRI', 'UNI')) THEN 'resource must be the primary key, alone' END AS wrong
FROM information_schema.TABLES AS t JOIN information_schema.COLUMNS AS c USING (TABLE_SCHEMA, TABLE_NAME)
WHERE TABLE_SCHEMA = ${schema === undefined ? 'DATABASE()' : `'${schema}'`} AND TABLE_NAME = '${table}'`,
    types: { resource: /^varbinary/, token: /^bigint/, holder: /^varbinary/ },
    hasFloor: true,
  },
  sqlite: {
    columns: (schema, table) => `SELECT c.name, lower(c.type) AS type,
  CASE WHEN upper(m.sql) LIKE '%COLLATE NOCASE%' OR upper(m.sql) LIKE '%COLLATE RTRIM%' THEN 'its collation takes different keys for one' END AS wrong
FROM ${schema === undefined ? '' : `${schema}.`}sqlite_master AS m, pragma_table_info(m.name${schema === undefined ? '' : `, '${schema}'`}) AS c
WHERE m.type = 'table' AND lower(m.name) = lower('${table}')`,
    types: {
      resource: /^(text|varchar.*)$/,
      token: /^(big)?int(eger)?$/,
      holder: /^(text|varchar.*)$/,
    },
    hasFloor: false,
  },
};

/** Looks at the table as the database describes it. Reads only. */
export function* checkFence(dialect: SqlDialect, name: string): SqlSteps<readonly FenceFinding[]> {
  const [table = name, schema] = name.split('.').toReversed();
  const { columns, types, hasFloor } = CHECK_SQL[dialect];
  const found = new Map<string, SqlRow>();
  for (const row of yield { sql: columns(schema, table), parameters: [] })
    found.set(textOf(row['name']), row);
  if (found.size === 0) {
    const message = `The fence table '${name}' does not exist in this database, so nothing can be written under a lock. Create it in a migration; fence.ddl() returns this SQL:\n${fenceSqlOf(dialect).ddl(name)}`;
    return [{ severity: 'warning', message }];
  }
  const problems = new Set<string>();
  for (const [column, type] of Object.entries(types)) {
    const row = found.get(column);
    if (row === undefined) problems.add(`it has no column ${column}`);
    else if (!type.test(textOf(row['type'])))
      problems.add(`its column ${column} has the type ${textOf(row['type'])}`);
    if (row?.['wrong'] != null) problems.add(textOf(row['wrong']));
  }
  if (problems.size > 0) {
    const message = `The fence table '${name}' can't refuse stale tokens reliably: ${Array.from(problems).join('; ')}. Create it as fence.ddl() does.`;
    return [{ severity: 'error', message }];
  }
  if (!hasFloor) return [];
  const floor = `SELECT 1 AS found FROM ${name} WHERE resource = ''`;
  if ((yield { sql: floor, parameters: [] }).length > 0) return [];
  const message = `The fence table '${name}' has no row for its floor: it was emptied, or made by another tool. A table that was emptied admits old tokens again. Keep other tools from the table, and add the row: INSERT INTO ${name} (resource, token) VALUES ('', 1);`;
  return [{ severity: 'warning', message }];
}

/** Drivers give some columns of catalogs as bytes. */
function textOf(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value);
}
