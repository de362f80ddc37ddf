import type { NodeFacts } from '../core/nodes/lock-node.ts';
import type { SqlRow } from '../fencing/sql/sql-executor.ts';
import type { LockDatabase } from './lock-database.ts';
import { runFunction } from './schema.ts';

const OLDEST_VERSION = 13;

/** The facts about a database with these tables of its own, that of the fence and this function. The fence deletes only what it prunes. */
const factsOf = (own: readonly string[], fenceTable: string, run: string): string => `SELECT
  current_setting('server_version') AS version,
  CAST(current_setting('server_version_num') AS integer) / 10000 AS major,
  pg_is_in_recovery() AS standby,
  current_setting('transaction_read_only') = 'on' AS readonly,
  current_setting('transaction_isolation') AS isolation,
  current_setting('fsync') AS fsync,
  current_setting('server_encoding') AS encoding,
  to_regprocedure('${run}(jsonb,integer)') IS NOT NULL AND bool_and(to_regclass(name) IS NOT NULL) AS installed,
  coalesce(bool_or((SELECT relpersistence = 'u' FROM pg_catalog.pg_class WHERE oid = to_regclass(name))), false) AS unlogged,
  string_agg((SELECT string_agg(wanted, ', ') || ' ON ' || name FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS wanted
    WHERE NOT has_table_privilege(to_regclass(name), wanted) AND NOT (wanted = 'DELETE' AND name = '${fenceTable}')), '; ') AS missing,
  (SELECT bool_or(NOT has_function_privilege(each.oid, 'EXECUTE')) FROM pg_catalog.pg_proc AS each, pg_catalog.pg_proc AS run
    WHERE run.oid = to_regprocedure('${run}(jsonb,integer)') AND each.pronamespace = run.pronamespace
    AND starts_with(each.proname, run.proname)) AS inexecutable
FROM unnest(ARRAY[${[...own, fenceTable].map((name) => `'${name}'`).join(', ')}]) AS name`;

/** Facts and findings about the database. Writes nothing. */
export async function examineDatabase(
  ask: (sql: string) => Promise<readonly SqlRow[]>,
  { schema, fenceTable }: LockDatabase,
): Promise<NodeFacts> {
  const own = ['lease', 'waiter', 'process'].map((name) => `${schema}redlock_${name}`);
  const [row = {}] = await ask(factsOf(own, fenceTable, runFunction(schema)));
  const refusals = [...refusalsOf(row)];
  const errors = [...refusals, ...dangersOf(row)];
  const findings: NonNullable<NodeFacts['findings']>[number][] = errors.map((message) => ({
    severity: 'error',
    message,
  }));
  if (row['fsync'] === 'off') {
    const message = 'runs with fsync off: after a crash a held lock may get a second holder';
    findings.push({ severity: 'warning', message });
  }
  return {
    kind: 'facts',
    runId: '',
    version: String(row['version']),
    role: row['standby'] === true ? 'standby' : 'primary',
    clusterEnabled: false,
    maxmemoryPolicy: '',
    appendOnly: true,
    connectedReplicas: 0,
    refusesWrites: refusals[0],
    missingRights: [],
    findings,
  };
}

/** Why it gives no locks. Each can also happen to a database that gave some: nothing but an answer like this says so without a call. */
function* refusalsOf(row: SqlRow): Generator<string> {
  const { standby, isolation, missing } = row;
  if (standby === true) yield 'is a standby, which takes no writes: connect to the primary';
  else if (row['readonly'] === true)
    yield 'begins transactions that can not write: set default_transaction_read_only off';
  if (row['installed'] !== true)
    yield 'lacks the tables and functions of the locks: create them in a migration, with the SQL that postgresNode(…).ddl() returns';
  if (isolation !== 'read committed')
    yield `begins transactions with the isolation level ${String(isolation)}, and locks need read committed: ALTER ROLE … SET default_transaction_isolation = 'read committed', or give them a pool of their own`;
  if (typeof missing === 'string')
    yield `a right is missing: GRANT ${missing} TO the user of this connection`;
  if (row['inexecutable'] === true)
    yield 'a right is missing: GRANT EXECUTE ON the functions redlock_v1…';
}

/** Why locks that it gives would not be safe. */
function* dangersOf(row: SqlRow): Generator<string> {
  const encoding = String(row['encoding']);
  if (Number(row['major']) < OLDEST_VERSION)
    yield `is PostgreSQL ${String(row['version'])}: use ${OLDEST_VERSION} or newer`;
  if (row['unlogged'] === true)
    yield 'keeps locks in an UNLOGGED table, which is empty after a crash: ALTER TABLE … SET LOGGED';
  if (!['UTF8', 'SQL_ASCII'].includes(encoding))
    yield `has the encoding ${encoding}, which lacks characters that keys may have: use a database with UTF8`;
}
