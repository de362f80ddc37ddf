import type { FenceFinding } from '../fence.ts';
import { fenceSqlOf } from '../sql/dialect.ts';
import type { SqlDialect, SqlRow, SqlSteps } from '../sql/sql-executor.ts';

/** What a table of each dialect must be, and how to look at it. */
interface CheckSql {
  /** One row per column, all text: name, type, and what else is `wrong` with the column or its table; none without the table. */
  readonly columns: (schema: string | undefined, table: string) => string;
  readonly types: Readonly<Record<'resource' | 'token' | 'holder', RegExp>>;
  /** The lengths of `ddl`, where the database cuts what is longer, or fails. */
  readonly lengths?: Readonly<Record<string, number>>;
  /** The user, in a row if it may not use the table. */
  readonly deniedUser?: (table: string) => string;
}

/** Otherwise two rows of one key could be there, or a claim of one key change the row of another. */
const NO_KEY = "'resource must be the primary key, alone'";

const LOOSE = "'its collation takes different keys for one'";

const CHECK_SQL: Readonly<Record<SqlDialect, CheckSql>> = {
  postgresql: {
    columns: (
      schema,
      table,
    ) => `SELECT CAST(attname AS text) AS name, format_type(atttypid, atttypmod) AS type,
  CASE WHEN relkind <> 'r' THEN 'it is no ordinary table but a view, or partitioned, or foreign'
    WHEN relpersistence <> 'p' THEN 'the table is not logged: a crash of the server empties it'
    WHEN row_security_active(c.oid) THEN 'row-level security applies to this user: a policy can hide the rows that refuse'
    WHEN NOT COALESCE(collisdeterministic, true) THEN ${LOOSE}
    WHEN attname = 'resource' AND NOT EXISTS (SELECT 1 FROM pg_index WHERE indrelid = c.oid AND indisunique AND indimmediate
      AND indisvalid AND indpred IS NULL AND indnkeyatts = 1 AND indkey[0] = attnum) THEN ${NO_KEY} END AS wrong
FROM pg_class AS c JOIN pg_attribute AS a ON attrelid = c.oid AND attnum > 0 AND NOT attisdropped
LEFT JOIN pg_collation AS l ON l.oid = attcollation
WHERE c.oid = to_regclass('${schema === undefined ? '' : `${schema}.`}${table}')`,
    types: {
      resource: /^(text|character varying.*)$/,
      token: /^(bigint|numeric(\((19|[2-9]\d),0\))?)$/,
      holder: /^(text|character varying.*)$/,
    },
    deniedUser: (
      table,
    ) => `SELECT CAST(quote_ident(current_user) AS text) AS name WHERE NOT (has_table_privilege('${table}', 'SELECT')
  AND has_table_privilege('${table}', 'INSERT') AND has_table_privilege('${table}', 'UPDATE'))`,
  },
  mysql: {
    columns: (schema, table) => `SELECT COLUMN_NAME AS name, CAST(COLUMN_TYPE AS CHAR) AS type,
  CASE WHEN COALESCE(ENGINE, '') <> 'InnoDB' THEN CONCAT('its engine ', COALESCE(ENGINE, 'of a view'), ' has no transactions with locks of rows: stale writes are not refused')
    WHEN (COLUMN_NAME = 'resource') <> EXISTS (SELECT 1 FROM information_schema.STATISTICS AS s
      WHERE s.TABLE_SCHEMA = t.TABLE_SCHEMA AND s.TABLE_NAME = t.TABLE_NAME AND NON_UNIQUE = 0 GROUP BY INDEX_NAME
      HAVING COUNT(*) = 1 AND MIN(s.COLUMN_NAME) = c.COLUMN_NAME AND MIN(SUB_PART) IS NULL) THEN ${NO_KEY} END AS wrong
FROM information_schema.TABLES AS t JOIN information_schema.COLUMNS AS c USING (TABLE_SCHEMA, TABLE_NAME)
WHERE TABLE_SCHEMA = ${schema === undefined ? 'DATABASE()' : `'${schema}'`} AND TABLE_NAME = '${table}'`,
    types: { resource: /^varbinary/, token: /^bigint/, holder: /^varbinary/ },
    lengths: { resource: 2_500, holder: 255 },
  },
  sqlite: {
    columns: (schema, table) => {
      const inSchema = schema === undefined ? '' : `, '${schema}'`;
      return `SELECT c.name, lower(c.type) AS type,
  CASE WHEN m.type = 'view' THEN 'it is a view' WHEN c.name = 'resource' THEN (
    SELECT CASE max(upper(x.coll) = 'BINARY') WHEN 1 THEN NULL WHEN 0 THEN ${LOOSE} ELSE ${NO_KEY} END
    FROM pragma_index_list(m.name${inSchema}) AS i, pragma_index_xinfo(i.name${inSchema}) AS x
    WHERE i."unique" AND NOT i.partial AND x.key AND x.name = 'resource'
      AND (SELECT sum(key) FROM pragma_index_xinfo(i.name${inSchema})) = 1) END AS wrong
FROM ${schema === undefined ? '' : `${schema}.`}sqlite_master AS m, pragma_table_info(m.name${inSchema}) AS c
WHERE m.type IN ('table', 'view') AND lower(m.name) = lower('${table}')`;
    },
    // By SQLite's rules of affinity.
    types: {
      resource: /^(?!.*int).*(char|clob|text)/,
      token: /int/,
      holder: /^(?!.*int).*(char|clob|text)/,
    },
  },
};

/** Looks at the table as the database describes it. Reads only. */
export function* checkFence(dialect: SqlDialect, name: string): SqlSteps<readonly FenceFinding[]> {
  const [table = name, schema] = name.split('.').toReversed();
  const { columns, types, lengths = {}, deniedUser } = CHECK_SQL[dialect];
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
  const findings = shortColumns(name, found, lengths);
  const [denied] = deniedUser ? yield { sql: deniedUser(name), parameters: [] } : [];
  if (denied !== undefined) {
    const message = `The user may not read and write the fence table '${name}', so every claim fails: GRANT SELECT, INSERT, UPDATE ON ${name} TO ${textOf(denied['name'])}; (and DELETE, where fence.prune is used).`;
    return [...findings, { severity: 'warning', message }];
  }
  return findings;
}

/** Where the database cuts a holder, the newest one is refused as stale. */
function shortColumns(
  name: string,
  found: ReadonlyMap<string, SqlRow>,
  lengths: Readonly<Record<string, number>>,
): readonly FenceFinding[] {
  const short = Object.entries(lengths).filter(([column, least]) => {
    const [, length] = /\((\d+)\)/.exec(textOf(found.get(column)?.['type'])) ?? [];
    return length !== undefined && Number(length) < least;
  });
  return short.map(([column, least]) => {
    const message = `The column ${column} of the fence table '${name}' has less than ${least} bytes: longer keys and holders fail, or, where sql_mode is not strict, are cut and then refused. Make it as long as fence.ddl() does.`;
    return { severity: 'warning', message };
  });
}

/** Drivers give some columns of catalogs as bytes. */
function textOf(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value);
}
