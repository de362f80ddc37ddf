import type { NodeFacts } from '../core/nodes/lock-node.ts';
import { isAnswer } from '../fencing/sql/sql-error.ts';
import type { SqlRow } from '../fencing/sql/sql-executor.ts';
import type { LockDatabase } from './lock-database.ts';
import { runFunction } from './schema.ts';

const OLDEST_VERSION = 13;

const FACTS = (run: string, lease: string) => `SELECT
  current_setting('server_version') AS version,
  CAST(current_setting('server_version_num') AS integer) / 10000 AS major,
  pg_is_in_recovery() AS standby,
  current_setting('transaction_isolation') AS isolation,
  current_setting('fsync') AS fsync,
  to_regprocedure('${run}(jsonb,integer)') IS NOT NULL AND to_regclass('${lease}') IS NOT NULL AS installed,
  (SELECT relpersistence = 'u' FROM pg_catalog.pg_class WHERE oid = to_regclass('${lease}')) AS unlogged`;

/** Facts and findings about the database. It runs a command that writes nothing, to find rights that are missing. */
export async function examineDatabase(
  ask: (sql: string) => Promise<readonly SqlRow[]>,
  { schema }: LockDatabase,
): Promise<NodeFacts> {
  const run = runFunction(schema);
  const [row = {}] = await ask(FACTS(run, `${schema}redlock_lease`));
  const errors: string[] = [];
  const warnings: string[] = [];
  if (Number(row['major']) < OLDEST_VERSION)
    errors.push(`is PostgreSQL ${String(row['version'])}: use ${OLDEST_VERSION} or newer`);
  if (row['standby'] === true)
    errors.push('is a standby, which takes no writes: connect to the primary');
  if (row['installed'] !== true)
    errors.push(
      'has not the tables and functions of the locks: create them in a migration, with the SQL that postgresNode(…).ddl() returns',
    );
  if (row['isolation'] !== 'read committed')
    errors.push(
      `begins transactions with the isolation level ${String(row['isolation'])}, and locks need read committed: ALTER ROLE … SET default_transaction_isolation = 'read committed', or a pool of their own`,
    );
  if (row['unlogged'] === true)
    errors.push(
      'keeps locks in an UNLOGGED table, which is empty after a crash: ALTER TABLE redlock_lease SET LOGGED',
    );
  if (row['fsync'] === 'off')
    warnings.push(
      'runs with fsync off: after a crash of the machine a held lock may get a second holder',
    );
  const missingRights = errors.length === 0 ? await findMissingRights(ask, run) : [];
  for (const right of missingRights)
    errors.push(
      `a right is missing (${right}): grant SELECT, INSERT, UPDATE and DELETE on the tables of the locks`,
    );
  const finding = (severity: 'error' | 'warning') => (message: string) => ({ severity, message });
  return {
    kind: 'facts',
    runId: '',
    version: String(row['version']),
    role: row['standby'] === true ? 'standby' : 'primary',
    clusterEnabled: false,
    maxmemoryPolicy: '',
    appendOnly: true,
    connectedReplicas: 0,
    missingRights,
    findings: [...errors.map(finding('error')), ...warnings.map(finding('warning'))],
  };
}

/** Runs what every vote needs, for a name that no lock has. */
async function findMissingRights(
  ask: (sql: string) => Promise<readonly SqlRow[]>,
  run: string,
): Promise<readonly string[]> {
  const names = JSON.stringify(['#probe']);
  const attempt = `"locks": ${names}, "fenced": [], "holder": "probe...", "ballot": 1, "ttlMs": 1, "retentionMs": 1000`;
  const release = `"locks": ${names}, "holder": "probe...", "granted": true, "pass": true, "isSole": false`;
  try {
    await ask(
      `SELECT ${run}('[{"do": "acquire", ${attempt}}, {"do": "release", ${release}}, {"do": "leave", "mark": "probe..."}]', 1000)`,
    );
    return [];
  } catch (error) {
    if (!isAnswer(error)) throw error;
    return [(error as Error).message];
  }
}
