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
  const { standby, isolation, missing } = row;
  const version = String(row['version']);
  const findings: { readonly severity: 'error' | 'warning'; readonly message: string }[] = [];
  const error = (isWrong: unknown, message: string): void =>
    void (isWrong && findings.push({ severity: 'error', message }));
  error(
    Number(row['major']) < OLDEST_VERSION,
    `is PostgreSQL ${version}: use ${OLDEST_VERSION} or newer`,
  );
  error(standby, 'is a standby, which takes no writes: connect to the primary');
  error(
    row['readonly'] === true && standby !== true,
    'begins transactions that can not write: set default_transaction_read_only off',
  );
  error(
    row['installed'] !== true,
    'lacks the tables and functions of the locks: create them in a migration, with the SQL that postgresNode(…).ddl() returns',
  );
  error(
    isolation !== 'read committed',
    `begins transactions with the isolation level ${String(isolation)}, and locks need read committed: ALTER ROLE … SET default_transaction_isolation = 'read committed', or give them a pool of their own`,
  );
  error(
    row['unlogged'],
    'keeps locks in an UNLOGGED table, which is empty after a crash: ALTER TABLE … SET LOGGED',
  );
  error(
    !['UTF8', 'SQL_ASCII'].includes(String(row['encoding'])),
    `has the encoding ${String(row['encoding'])}, which lacks characters that keys may have: use a database with UTF8`,
  );
  error(missing, `a right is missing: GRANT ${String(missing)} TO the user of this connection`);
  error(row['inexecutable'], 'a right is missing: GRANT EXECUTE ON the functions redlock_v1…');
  if (row['fsync'] === 'off') {
    const message = 'runs with fsync off: after a crash a held lock may get a second holder';
    findings.push({ severity: 'warning', message });
  }
  return {
    kind: 'facts',
    runId: '',
    version,
    role: standby === true ? 'standby' : 'primary',
    clusterEnabled: false,
    maxmemoryPolicy: '',
    appendOnly: true,
    connectedReplicas: 0,
    missingRights: [],
    findings,
  };
}
