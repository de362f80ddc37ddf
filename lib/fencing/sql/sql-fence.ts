import { setTimeout as delay } from 'node:timers/promises';
import { quoteKeys, RedlockConfigError } from '../../core/errors.ts';
import { noteAdmission } from '../../core/fencing-token.ts';
import { valuesOf } from '../../core/options/option-names.ts';
import {
  DEFAULT_ATTEMPTS,
  DEFAULT_TABLE,
  checkedKeys,
  SQL_FENCE_OPTIONS,
  transactionOptions,
  type TransactionOptions,
} from '../fence-arguments.ts';
import { advanceFence, fenceError, outsideTransaction, refuseEnded } from './advance-fence.ts';
import type {
  Fence,
  FenceEventListener,
  FenceFinding,
  FenceKeys,
  FenceToken,
  FenceTransactionOptions,
  IsolationLevel,
  SqlFenceOptions,
} from '../fence.ts';
import { fenceClaims, type FenceClaim } from '../fence-claim.ts';
import { FenceContext, type HeldClaims } from '../fence-context.ts';
import { FenceReporter, isStaleTokenError, type Refusal } from '../fence-reporter.ts';
import { checkFence } from './check-fence.ts';
import { FENCE_SQL, type FenceTable } from './dialect.ts';
import { setTimeLimit } from './postgres-sql.ts';
import { pruneFence } from './prune-fence.ts';
import { isAbortedTransactionError, isRetryableSqlError } from './sql-error.ts';
import { refuseSecondDriver } from './sqlite-driver.ts';
import { runSteps, type Steps } from '../steps.ts';
import {
  send,
  type CommitCheck,
  type SqlDialect,
  type SqlExecutor,
  type SqlFenceAdapter,
  type SqlRow,
} from './sql-executor.ts';

const MAX_RETRY_DELAY_MS = 200;

/** A call of `transaction` or `claim`. */
interface FenceCall<Transaction, Result> extends HeldClaims {
  /** Absent: it only brings the token. */
  readonly work?: (transaction: Transaction) => Promise<Result> | Result;
  readonly options?: Partial<TransactionOptions>;
  /** The fence that opens the transaction. */
  readonly opener: object;
  /** The refusal of a stale token which the work brought; it dooms the transaction, even if the work swallows the error. */
  refusal?: Refusal;
}

/** A call of `advance`. */
interface AdvanceCall<Transaction> {
  readonly transaction: Transaction;
  readonly token: FenceToken | undefined;
  readonly claims: readonly FenceClaim[];
}

/** The call for which a fence opened a transaction, by that transaction: the refusal by any fence dooms it. */
const openCalls = new WeakMap<object, { readonly opener: object; refusal?: Refusal }>();

/**
 * The fence over any SQL database: one table, whose row locks order the holders.
 *
 * @example
 * ```ts
 * import { SqlFence, type SqlRow } from 'nestjs-fenced-lock/fencing';
 *
 * interface Connection {
 *   isOpen: boolean;
 *   query(sql: string, parameters: readonly unknown[]): Promise<SqlRow[]>;
 * }
 * declare const database: { transaction<Result>(work: (connection: Connection) => Promise<Result>): Promise<Result> };
 *
 * const fence = new SqlFence<Connection>({
 *   dialect: 'postgresql',
 *   executor: (connection) => ({
 *     placeholder: 'numbered',
 *     query: (sql, parameters) => connection.query(sql, parameters),
 *   }),
 *   isTransaction: (connection) => connection.isOpen,
 *   run: (work) => database.transaction(work),
 * });
 * ```
 */
export class SqlFence<Transaction> implements Fence<Transaction> {
  private readonly table: FenceTable;
  private readonly reporter: FenceReporter;
  private readonly context: FenceContext;

  constructor(
    private readonly adapter: SqlFenceAdapter<Transaction>,
    options: SqlFenceOptions = {},
  ) {
    const { dialect, database = adapter, onlyConnection } = adapter;
    const {
      table: name = DEFAULT_TABLE,
      maxAge: maxAgeMs,
      ...listeners
    } = valuesOf(SQL_FENCE_OPTIONS, options);
    this.table = { dialect, name, maxAgeMs };
    this.context = new FenceContext(database, name, onlyConnection);
    this.reporter = new FenceReporter(listeners);
  }

  /** @internal What a lock node over the same database needs. */
  get parts(): { readonly adapter: SqlFenceAdapter<Transaction>; readonly table: FenceTable } {
    return { adapter: this.adapter, table: this.table };
  }

  async transaction<Result>(
    token: FenceToken | undefined,
    work: (transaction: Transaction) => Promise<Result> | Result,
    options?: FenceTransactionOptions,
  ): Promise<Result> {
    const settled = transactionOptions(options);
    const claims = this.checkedClaims(token, settled.keys);
    this.context.refuseNested(claims);
    const call: FenceCall<Transaction, Result> = { opener: this, claims, work, options: settled };
    const attempt = async () => {
      delete call.refusal;
      call.isCovering = false;
      try {
        return await this.attempt(call);
      } catch (error) {
        if (call.isCovering) await this.claimAgain(token!, claims, error);
        throw error;
      }
    };
    const run = () => this.retrying(claims, attempt, settled.attempts);
    return this.reporter.reporting(token, claims, 'transaction', run, call);
  }

  async advance(
    transaction: Transaction,
    token: FenceToken | undefined,
    options?: FenceKeys,
  ): Promise<void> {
    const call = this.advanceCall(transaction, token, options);
    await this.reportAdvance(call, async () => this.advanceNow(call));
  }

  /** @throws FencedUsageError as `fenceClaims` */
  protected advanceCall(
    transaction: Transaction,
    token: FenceToken | undefined,
    options: FenceKeys | undefined,
  ): AdvanceCall<Transaction> {
    const claims = this.checkedClaims(token, checkedKeys('fence.advance', options));
    return { transaction, token, claims };
  }

  /**
   * Runs in the transaction, which may be one on another connection than that of the fence. Its statements are sent at once where
   * that can be: those of a caller who forgot to await it come later.
   */
  protected advanceNow(call: AdvanceCall<Transaction>): Promise<void> | void {
    return runSteps(this.advanceSteps(call));
  }

  /** A refusal in a transaction of a fence dooms that, at once. */
  private *advanceSteps({ transaction, token, claims }: AdvanceCall<Transaction>): Steps<void> {
    const isInside = yield this.adapter.isTransaction(Object(transaction) as Transaction);
    if (!isInside) throw outsideTransaction(claims);
    try {
      yield* this.inside(transaction, (executor) => advanceFence(executor, this.table, claims));
    } catch (error) {
      const call = openCalls.get(transaction as object);
      if (call && isStaleTokenError(error)) call.refusal = { error, token, claims };
      throw error;
    }
  }

  /** A refusal in its own transaction is reported when that has been rolled back. */
  protected async reportAdvance(
    { transaction, token, claims }: AdvanceCall<Transaction>,
    advance: () => Promise<void>,
  ): Promise<void> {
    if (openCalls.get(transaction as object)?.opener === this) return advance();
    await this.reporter.reporting(token, claims, 'advance', advance);
  }

  async claim(token: FenceToken | undefined, options?: FenceKeys): Promise<void> {
    const claims = this.checkedClaims(token, checkedKeys('fence.claim', options));
    if (this.context.covers(claims)) return;
    this.context.refuseNested(claims);
    await this.reporter.reporting(token, claims, 'claim', () => this.claimNow(claims));
  }

  private claimNow(claims: readonly FenceClaim[]): Promise<unknown> {
    const { autocommit } = this.adapter;
    return this.retrying<unknown>(claims, () =>
      autocommit
        ? runSteps(advanceFence(autocommit, this.table, claims))
        : this.attempt({ opener: this, claims }),
    );
  }

  /**
   * Makes the claims again that were rolled back with the transaction that covered them: later reads rely on them. An older holder
   * that waited for the row comes first, so earlier reads may be outdated.
   */
  private async claimAgain(
    token: FenceToken,
    claims: readonly FenceClaim[],
    error: unknown,
  ): Promise<void> {
    await this.claimNow(claims).catch((failure: unknown) => {
      // A token that is stale writes no more.
      if (isStaleTokenError(failure)) return noteAdmission(token, false);
      throw new AggregateError(
        [error, failure],
        `The claims of ${quoteKeys(claims.map(({ key }) => key))} were rolled back with the transaction around them, and could not be made again. Claim and read again.`,
      );
    });
  }

  async prune(): Promise<number> {
    try {
      return await pruneFence(this.table, (steps) => this.inOwnTransaction(steps));
    } catch (error) {
      throw fenceError(error, this.table, []);
    }
  }

  check(): Promise<readonly FenceFinding[]> {
    return checkFence(this.table, (steps) => this.inOwnTransaction(steps));
  }

  /** @internal Runs the statements in a transaction that does not touch the fence first. */
  async inOwnTransaction<Result>(steps: (executor: SqlExecutor) => Steps<Result>): Promise<Result> {
    this.context.refuseNested([]);
    const { plainReads } = FENCE_SQL[this.table.dialect];
    return this.retrying([], () => this.begin(steps, plainReads));
  }

  ddl(): string {
    return FENCE_SQL[this.table.dialect].ddl(this.table.name);
  }

  observe(listener: FenceEventListener): () => void {
    return this.reporter.observe(listener);
  }

  /** @throws FencedUsageError as `fenceClaims` */
  private checkedClaims(
    token: FenceToken | undefined,
    keys: readonly string[] | undefined,
  ): readonly FenceClaim[] {
    return fenceClaims(token, keys, this.table.maxAgeMs);
  }

  /** Repeats what the database aborted for the sake of another transaction. */
  private async retrying<Result>(
    claims: readonly FenceClaim[],
    attempt: () => Promise<Result> | Result,
    limit = DEFAULT_ATTEMPTS,
  ): Promise<Result> {
    for (let count = 1; ; count += 1) {
      try {
        return await attempt();
      } catch (error) {
        if (count >= limit || !isRetryableSqlError(error)) throw error;
        this.reporter.retried(claims, count, error);
        await delay(Math.random() * Math.min(MAX_RETRY_DELAY_MS, 2 ** count));
      }
    }
  }

  private begin<Result>(
    steps: (executor: SqlExecutor, transaction: Transaction) => Steps<Result>,
    level?: IsolationLevel,
    commit: CommitCheck = {},
  ): Promise<Result> {
    const run = (transaction: Transaction) =>
      // The result is no promise where everything was answered at once: that adapter takes it as it is.
      runSteps(this.inside(transaction, steps)) as Promise<Result>;
    return this.adapter.run(run, level, commit);
  }

  private *inside<Result>(
    transaction: Transaction,
    steps: (executor: SqlExecutor, transaction: Transaction) => Steps<Result>,
  ): Steps<Result> {
    const executor = this.adapter.executor(transaction);
    if (this.table.dialect === 'sqlite') yield* refuseSecondDriver(executor, this.context.database);
    return yield* steps(executor, transaction);
  }

  /** Runs the work once in a transaction, whose first statement after its settings is the advance. */
  private attempt<Result>(call: FenceCall<Transaction, Result>): Promise<Result> {
    const commit: CommitCheck = {};
    const steps = (executor: SqlExecutor, transaction: Transaction) =>
      this.attemptSteps(executor, call, transaction, commit);
    return this.begin(steps, call.options?.isolationLevel, commit);
  }

  /** @throws the refusal of the call when the work succeeded in spite of it */
  private *attemptSteps<Result>(
    executor: SqlExecutor,
    call: FenceCall<Transaction, Result>,
    transaction: Transaction,
    commit: CommitCheck,
  ): Steps<Result> {
    const { claims, work, options = {} } = call;
    const { dialect, checksAtCommit } = this.adapter;
    const fenceSql = FENCE_SQL[dialect];
    openCalls.set(transaction as object, call);
    try {
      yield* limitSteps(executor, options, dialect);
      const rows: readonly SqlRow[] = yield* advanceFence(executor, this.table, claims);
      if (!work) return undefined as Result;
      if (fenceSql.mark) yield send(executor, fenceSql.mark);
      const result: Result = yield this.context.run(call, () => work(transaction));
      if (call.refusal) throw call.refusal.error;
      const check = fenceSql.checkMark(rows);
      if (checksAtCommit) commit.check = check;
      else yield* endSteps(executor, check);
      return result;
    } catch (error) {
      throw call.refusal && isAbortedTransactionError(error) ? call.refusal.error : error;
    } finally {
      openCalls.delete(transaction as object);
    }
  }
}

function* endSteps(executor: SqlExecutor, sql: string): Steps<void> {
  try {
    yield send(executor, sql);
  } catch (error) {
    refuseEnded(error);
  }
}

/** The values are checked numbers, so no parameter is needed. */
function* limitSteps(
  executor: SqlExecutor,
  options: Partial<TransactionOptions>,
  dialect: SqlDialect,
): Steps<void> {
  const settings = {
    lockTimeout: 'lock_timeout',
    idleInTransactionTimeout: 'idle_in_transaction_session_timeout',
  } as const;
  for (const [name, setting] of Object.entries(settings)) {
    const value = options[name as keyof typeof settings];
    if (value === undefined) continue;
    if (dialect !== 'postgresql') {
      const fix = `it is a setting of PostgreSQL; set the one of ${dialect} on its connection`;
      throw new RedlockConfigError(name, value, fix);
    }
    const [row] = yield send(executor, setTimeLimit(setting, value));
    if (row?.['applied'] === '') {
      const fix = 'it limits waits between sessions, and a PGlite has only one: leave it out';
      throw new RedlockConfigError(name, value, fix);
    }
  }
}
