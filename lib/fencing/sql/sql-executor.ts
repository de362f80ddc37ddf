import { RedlockConfigError } from '../../core/errors.ts';
import type { IsolationLevel } from '../fence.ts';

/** The SQL the fence speaks. PGlite speaks `postgresql`, MariaDB speaks `mysql`. */
export type SqlDialect = 'postgresql' | 'mysql' | 'sqlite';

/** The style in which the driver marks parameters: `$1`, `$2` … or `?`. */
export type PlaceholderStyle = 'numbered' | 'question-mark';

/** A row, by the names of its columns. */
export type SqlRow = Readonly<Record<string, unknown>>;

/**
 * A database as far as the fence needs it: one connection or transaction that runs SQL with parameters. Every driver and
 * ORM is brought into this form by a few lines.
 */
export interface SqlExecutor {
  /** The style in which the driver writes parameters. */
  readonly placeholder: PlaceholderStyle;
  /** Runs one statement and gives its rows, an empty array when it has none. It must not swallow errors. */
  query(
    sql: string,
    parameters: readonly unknown[],
  ): Promise<readonly SqlRow[]> | readonly SqlRow[];
}

/** A statement, known when the work is done, that fails when its transaction is over. */
export interface CommitCheck {
  check?: string;
}

/** The part that one driver or ORM does differently. */
export interface SqlFenceAdapter<Transaction> {
  /** The dialect of the statements that the database understands. */
  readonly dialect: SqlDialect;
  /** The driver's transaction as the fence sees it. */
  executor(transaction: Transaction): SqlExecutor;
  /**
   * Whether statements on it run in an open transaction. The driver should know without asking the database: it is called for
   * each `advance`.
   */
  isTransaction(transaction: Transaction): boolean | Promise<boolean>;
  /**
   * Runs `work` in a new transaction on a connection of its own (not a savepoint of an open one): commits when it resolves,
   * rolls back when it rejects, and rejects with the same error.
   */
  run<Result>(
    work: (transaction: Transaction) => Promise<Result>,
    isolationLevel: IsolationLevel | undefined,
    commit: CommitCheck,
  ): Promise<Result>;
  /**
   * The pool or ORM: fences over one of them know of each other's transactions, so that none waits for one around it. Absent: the
   * adapter itself.
   */
  readonly database?: object;
  /** A connection without a second one: a transaction in the work of another one would wait for it indefinitely, and is refused. */
  readonly onlyConnection?: object;
  /** `run` sends the statement of `commit` right before its COMMIT, in the same round trip. Absent: the fence sends it. */
  readonly checksAtCommit?: boolean;
  /** It runs statements outside of any transaction. Absent: a claim opens a transaction. */
  readonly autocommit?: SqlExecutor;
}

/** Sends a statement with `$n` placeholders, which may repeat and come in any order: for `?`, a parameter is sent at each of its uses. */
export function send(
  executor: SqlExecutor,
  sql: string,
  parameters: readonly unknown[] = [],
): ReturnType<SqlExecutor['query']> {
  if (executor.placeholder === 'numbered') return executor.query(sql, parameters);
  const used: unknown[] = [];
  const text = sql.replace(/\$(\d+)/g, (_match, position: string) => {
    used.push(parameters[Number(position) - 1]);
    return '?';
  });
  return executor.query(text, used);
}

/** The style that the drivers of a dialect take, where nothing between translates it. */
export function driverPlaceholder(dialect: SqlDialect): PlaceholderStyle {
  return dialect === 'postgresql' ? 'numbered' : 'question-mark';
}

/** The rows in the result of a raw query: `{ rows }` of pg and PGlite, `[rows, fields]` of mysql2, the rows of better-sqlite3 and TypeORM. */
export function resultRows(result: any): readonly SqlRow[] {
  if (!Array.isArray(result)) return result?.rows ?? [];
  return Array.isArray(result[0]) ? result[0] : result;
}

/** The names of databases and drivers in Knex and TypeORM. */
const DIALECTS: Readonly<Record<string, SqlDialect>> = {
  pg: 'postgresql',
  postgres: 'postgresql',
  postgresql: 'postgresql',
  mysql: 'mysql',
  mysql2: 'mysql',
  mariadb: 'mysql',
  'better-sqlite3': 'sqlite',
};

/**
 * The dialect that the fence speaks to the database that an ORM calls `name`.
 * @throws RedlockConfigError about `option` for a name that it does not know
 */
export function dialectNamed(option: string, name: string): SqlDialect {
  const dialect = Object.hasOwn(DIALECTS, name) ? DIALECTS[name] : undefined;
  if (dialect) return dialect;
  const known = Object.keys(DIALECTS).join(', ');
  throw new RedlockConfigError(option, name, `the fence knows ${known}`);
}
