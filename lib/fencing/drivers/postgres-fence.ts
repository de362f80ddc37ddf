import { FencedUsageError, isRedlockError, RedlockConfigError } from '../../core/errors.ts';
import { kindOf } from '../../core/options/option-names.ts';
import { fenceError } from '../sql/advance-fence.ts';
import {
  claimParameters,
  runStatement,
  type SqlFenceAdapter,
  type SqlRow,
  type SqlStatement,
} from '../sql/sql-executor.ts';
import { postgresFenceCheck } from '../sql/postgres-sql.ts';
import { runStatementPair } from './statement-pair.ts';
import { keysOf, SQL_FENCE_OPTIONS } from '../fence-arguments.ts';
import type { Fence, FenceKeys, FenceToken, SqlFenceOptions } from '../fence.ts';
import { fenceClaims } from '../fence-claim.ts';
import {
  checkPostgresPool,
  isInPostgresTransaction,
  postgresExecutor,
  runPostgresTransaction,
  withStatement,
  type PostgresClient,
  type PostgresPool,
} from './postgres-pool.ts';
import { SqlFence } from '../sql/sql-fence.ts';

/** The client type of the user's own pool, so that `tx` has all methods of `pg`. */
export type PostgresClientOf<Pool> = Pool extends {
  connect: { (): Promise<infer Client>; (...rest: any[]): any };
}
  ? Client
  : Pool extends { connect(): Promise<infer Client> }
    ? Client
    : PostgresClient;

/** Options of the fence over a pool of `pg`. */
export interface PostgresFenceOptions extends SqlFenceOptions {
  /**
   * Sends the fence's own statements (of `transaction`, `advance`, `claim` and `statement`) as prepared statements, which
   * PostgreSQL parses once per connection and soon stops planning. Each text stays prepared as long as its connection lives, so the
   * texts given to `statement` should be a fixed set, with all that varies in parameters. Leave it off behind a pooler in
   * transaction mode that doesn't track prepared statements, such as PgBouncer before 1.21.
   *
   * @default false
   */
  readonly prepared?: boolean;
}

/** The fence of PostgreSQL, which can also check and write in one round trip. */
export interface PostgresFence<Transaction> extends Fence<Transaction> {
  /**
   * Checks the token, then runs one statement of yours, in a transaction of their own and in a single round trip:
   *
   * ```ts
   * await fence.statement(token, 'UPDATE seat SET holder = $2 WHERE id = $1', ['12A', 'ana']);
   * ```
   *
   * One that begins with another word than SELECT, INSERT, UPDATE, DELETE, MERGE, WITH, VALUES or TABLE runs in a transaction
   * block, in four round trips: so PostgreSQL refuses the COMMIT of a procedure under CALL, or of a DO (2D000).
   *
   * The statement sees all that older holders have committed. What it writes must not depend on something that the program read
   * before, unless `claim` ran before that read.
   *
   * @returns the rows of the statement
   * @throws StaleTokenError, FencedUsageError
   */
  statement(
    token: FenceToken | undefined,
    sql: string,
    parameters?: readonly unknown[],
    options?: FenceKeys,
  ): Promise<readonly SqlRow[]>;
}

/**
 * The fence over a pool of `pg`.
 *
 * `tx` is the pool's own client. One round trip is added to a transaction.
 *
 * @example
 * ```ts
 * import { postgresFence } from 'nestjs-fenced-lock/fencing';
 * import { Pool } from 'pg';
 *
 * const fence = postgresFence(new Pool({ connectionString: process.env.DATABASE_URL }));
 * await fence.transaction(token, (client) =>
 *   client.query('UPDATE seat SET customer = $2 WHERE id = $1', ['12A', 'ana']),
 * );
 * ```
 * @throws RedlockConfigError when an option is wrong
 */
export function postgresFence<Pool extends PostgresPool>(
  pool: Pool,
  options: PostgresFenceOptions = {},
): PostgresFence<PostgresClientOf<Pool>> {
  checkPostgresPool('postgresFence', pool, options, [...SQL_FENCE_OPTIONS, 'prepared']);
  const { prepared = false } = options;
  if (typeof prepared !== 'boolean')
    throw new RedlockConfigError('prepared', prepared, 'give true or false');
  return new StatementFence<PostgresClient>(
    {
      dialect: 'postgresql',
      database: pool,
      executor: (client) => postgresExecutor((use) => use(client), prepared, true),
      autocommit: postgresExecutor((use) => withStatement(pool, use), prepared, false),
      isTransaction: isInPostgresTransaction,
      run: (work, isolationLevel, commit) =>
        runPostgresTransaction(pool, work, isolationLevel, commit),
      checksAtCommit: true,
    },
    options,
    (check, write, refused) => runStatementPair(pool, check, write, refused, prepared),
  ) as unknown as PostgresFence<PostgresClientOf<Pool>>;
}

/** Statements that can't end the transaction they run in. */
const NEVER_COMMITS = /^\s*(SELECT|INSERT|UPDATE|DELETE|MERGE|WITH|VALUES|TABLE)\b/i;

/** COPY of a table whose first FROM is this, or the other name that PostgreSQL takes for it. It has no text in front of that. */
const COPY_FROM_STDIN =
  /^[ \t-\r;]*COPY(?![ \t-\r]*\()(?:(?![ \t-\r)]FROM[ \t-\r])[^])*[ \t-\r)]FROM[ \t-\r]+STD(?:IN|OUT)(?![\w$\u0080-\uffff])/i;

/** PostgreSQL then takes no end of the statement for an answer, so that the connection would be lost. */
function waitsForData(sql: string): boolean {
  const outside = /"[^"]*"|--[^\n\r]*|\/\*/g;
  const inComment = /\/\*|\*\//g;
  let bare = '';
  let depth = 0;
  for (let at = 0; at < sql.length;) {
    const next = depth > 0 ? inComment : outside;
    next.lastIndex = at;
    const found = next.exec(sql);
    if (depth === 0)
      bare += `${sql.slice(at, found?.index)} ${found?.[0].startsWith('"') ? '"" ' : ''}`;
    if (!found) break;
    if (found[0] === '/*') depth += 1;
    if (found[0] === '*/') depth -= 1;
    at = next.lastIndex;
  }
  return COPY_FROM_STDIN.test(bare);
}

/** @throws FencedUsageError */
function checkStatement(sql: unknown, parameters: unknown, keys: readonly string[]): void {
  if (typeof sql === 'string' && Array.isArray(parameters)) return;
  const fault =
    typeof sql === 'string'
      ? `takes the parameters of its statement in an array, not ${kindOf(parameters)}`
      : `needs the statement as text, not ${kindOf(sql)}`;
  const example = "statement(token, 'UPDATE seat SET owner = $2 WHERE id = $1', ['12A', 'ana'])";
  throw new FencedUsageError(`fence.statement ${fault}: ${example}. Nothing was written.`, keys);
}

/** Runs the check and, unless it fails, the write, in one transaction. Undefined: the client can't in one round trip. */
type RunPair = (
  check: SqlStatement,
  write: SqlStatement,
  refused: (error: unknown) => unknown,
) => Promise<readonly SqlRow[] | undefined>;

/** Shared with PGlite. */
export class StatementFence<Transaction>
  extends SqlFence<Transaction>
  implements PostgresFence<Transaction>
{
  constructor(
    adapter: SqlFenceAdapter<Transaction>,
    options?: SqlFenceOptions,
    private readonly runPair?: RunPair,
  ) {
    super(adapter, options);
  }

  async statement(
    token: FenceToken | undefined,
    sql: string,
    parameters: readonly unknown[] = [],
    options?: FenceKeys,
  ): Promise<readonly SqlRow[]> {
    const claims = fenceClaims(token, keysOf('fence.statement', options));
    const keys = claims.map(({ key }) => key);
    checkStatement(sql, parameters, keys);
    this.context.refuseNested(claims);
    const neverCommits = NEVER_COMMITS.test(sql);
    if (!neverCommits && waitsForData(sql)) {
      throw new FencedUsageError(
        'fence.statement sends no data, for which COPY … FROM STDIN waits. Copy inside fence.transaction, with a stream on its client (pg-copy-streams). Nothing was written.',
        keys,
      );
    }
    const { table } = this;
    const check = (isKnown: boolean) => ({
      sql: postgresFenceCheck(table, claims.length, isKnown),
      parameters: claimParameters(claims),
    });
    // Read when it is sent, and again by another attempt.
    const write = { sql, parameters: [...parameters] };
    const refused = (error: unknown) => fenceError(error, 'postgresql', table, claims);
    const work = (transaction: Transaction) =>
      runStatement(this.adapter.executor(transaction), write).catch((error: unknown) => {
        if (!isRedlockError(error)) throw error;
        throw new FencedUsageError(
          'The statement ended the transaction in which fence.statement runs it. Give it no COMMIT, END, ROLLBACK, ABORT or PREPARE TRANSACTION: the fence commits by itself.',
          keys,
          { cause: error },
        );
      });
    const runPair = neverCommits ? this.runPair : undefined;
    const pair = runPair && ((isKnown: boolean) => runPair(check(isKnown), write, refused));
    const attempt = async () =>
      (pair && (await this.knownKeys.advance(claims, pair))) ??
      (await this.attempt({ of: this, claims, work }));
    return this.reporter.reporting(token, claims, 'write', () => this.retrying(claims, attempt));
  }
}
