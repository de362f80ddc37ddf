import { setTimeout as delay } from 'node:timers/promises';
import { quoteKeys, RedlockConfigError } from '../../core/errors.ts';
import {
  DEFAULT_ATTEMPTS,
  keysOf,
  maxAgeOf,
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
  SqlFenceOptions,
} from '../fence.ts';
import { fenceClaims, type FenceClaim } from '../fence-claim.ts';
import { FenceContext, type HeldClaims } from '../fence-context.ts';
import { FenceReporter, isStaleTokenError, type Refusal } from '../fence-reporter.ts';
import { fenceSqlOf, fenceTableName, type FenceTable } from './dialect.ts';
import { isRetryableSqlError, isAbortedTransactionError } from './sql-error.ts';
import {
  type SqlFenceAdapter,
  type SqlSteps,
  type CommitCheck,
  type SqlDialect,
  runStepsOn,
} from './sql-executor.ts';
import { checkFence } from '../upkeep/check-fence.ts';
import { pruneFence } from '../upkeep/prune-fence.ts';

const MAX_RETRY_DELAY_MS = 200;

/** One call of `transaction` or `claim`. */
export interface FenceCall<Transaction, Result> extends HeldClaims {
  readonly work: (transaction: Transaction) => Promise<Result> | Result;
  readonly options?: Partial<TransactionOptions>;
  /** The fence that opens the transaction. */
  readonly of: object;
  /** Only brings the token. */
  readonly isClaim?: boolean;
  /** That of a stale token which the work brought; it dooms the transaction, even if the work swallows the error. */
  refusal?: Refusal;
}

/** By the transaction that a fence opened for it: the refusal by any fence dooms it. */
export const openCalls = new WeakMap<object, { readonly of: object; refusal?: Refusal }>();

/** A fence that is one table, whose row locks order the holders. */
export abstract class TableFence<Transaction> implements Fence<Transaction> {
  protected readonly table: FenceTable;
  protected readonly reporter: FenceReporter;
  protected readonly context: FenceContext;

  constructor(
    protected readonly adapter: Pick<
      SqlFenceAdapter<Transaction>,
      'dialect' | 'database' | 'onlyConnection' | 'autocommit'
    >,
    options: SqlFenceOptions = {},
  ) {
    const { dialect, database = adapter, onlyConnection } = adapter;
    fenceSqlOf(dialect);
    const name = fenceTableName(options.table);
    this.table = { dialect, name, maxAgeMs: maxAgeOf(options) };
    this.context = new FenceContext(database, name, onlyConnection);
    this.reporter = new FenceReporter(options);
  }

  /**
   * Runs the work once in a transaction, whose first statement after its settings is the advance.
   *
   * @throws the refusal of the call when the work succeeded in spite of it
   */
  protected abstract attempt<Result>(
    call: FenceCall<Transaction, Result>,
  ): Promise<Result> | Result;

  async transaction<Result>(
    token: FenceToken | undefined,
    work: (transaction: Transaction) => Promise<Result> | Result,
    options?: FenceTransactionOptions,
  ): Promise<Result> {
    const settled = transactionOptions(options);
    const claims = this.claimsOf(token, settled.keys);
    this.context.refuseNested(claims);
    const call: FenceCall<Transaction, Result> = { of: this, claims, work, options: settled };
    const attempt = async () => {
      delete call.refusal;
      call.isCovering = false;
      try {
        return await this.attempt(call);
      } catch (error) {
        if (call.isCovering) await this.claimAgain(claims, error);
        throw error;
      }
    };
    const run = () => this.inTurn(() => this.retrying(claims, attempt, settled.attempts));
    return this.reporter.reporting(token, claims, 'transaction', run, call);
  }

  abstract advance(
    transaction: Transaction,
    token: FenceToken | undefined,
    options?: FenceKeys,
  ): Promise<void>;

  async claim(token: FenceToken | undefined, options?: FenceKeys): Promise<void> {
    const claims = this.claimsOf(token, keysOf('fence.claim', options));
    if (this.context.covers(claims)) return;
    this.context.refuseNested(claims);
    const run = () => this.inTurn(() => this.claimNow(claims));
    await this.reporter.reporting(token, claims, 'claim', run);
  }

  private claimNow(claims: readonly FenceClaim[]): Promise<unknown> {
    const { autocommit } = this.adapter;
    return this.retrying(claims, () =>
      autocommit
        ? runStepsOn<unknown>(autocommit, advanceFence(this.table, claims))
        : this.attempt({ of: this, claims, work: () => undefined, isClaim: true }),
    );
  }

  /**
   * Makes the claims again that were rolled back with the transaction that covered them: later reads rely on them. An older holder
   * that waited for the row comes first, so earlier reads may be outdated.
   */
  private async claimAgain(claims: readonly FenceClaim[], error: unknown): Promise<void> {
    await this.claimNow(claims).catch((failure: unknown) => {
      // A token that is stale writes no more.
      if (isStaleTokenError(failure)) return;
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

  private async inOwnTransaction<Result>(steps: () => SqlSteps<Result>): Promise<Result> {
    this.context.refuseNested([]);
    return this.inTurn(() => this.retrying([], () => this.inTransaction(steps)));
  }

  /** @throws FencedUsageError as `fenceClaims` */
  protected claimsOf(
    token: FenceToken | undefined,
    keys: readonly string[] | undefined,
  ): readonly FenceClaim[] {
    return fenceClaims(token, keys, this.table.maxAgeMs);
  }

  /** Runs the statements in a transaction that does not touch the fence first. */
  protected abstract inTransaction<Result>(steps: () => SqlSteps<Result>): Promise<Result> | Result;

  ddl(): string {
    return fenceSqlOf(this.table.dialect).ddl(this.table.name);
  }

  observe(listener: FenceEventListener): () => void {
    return this.reporter.observe(listener);
  }

  /** Runs one use of the fence when the connection is free for it. */
  protected inTurn<Result>(use: () => Promise<Result>): Promise<Result> {
    return use();
  }

  /** Before the next attempt, a random part of it. */
  protected longestDelayMs(count: number): number {
    return Math.min(MAX_RETRY_DELAY_MS, 2 ** count);
  }

  /** Whether the database rolled all of it back for the sake of another transaction. */
  protected mayRunAgain(error: unknown): boolean {
    return isRetryableSqlError(error);
  }

  /** Repeats what the database aborted for the sake of another transaction. */
  protected async retrying<Result>(
    claims: readonly FenceClaim[],
    attempt: () => Promise<Result> | Result,
    limit = DEFAULT_ATTEMPTS,
  ): Promise<Result> {
    for (let count = 1; ; count += 1) {
      try {
        return await attempt();
      } catch (error) {
        if (count >= limit || !this.mayRunAgain(error)) throw error;
        this.reporter.retried(claims, count, error);
        await delay(Math.random() * this.longestDelayMs(count));
      }
    }
  }
}

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
 *     dialect: 'postgresql',
 *     placeholder: 'numbered',
 *     query: (sql, parameters) => connection.query(sql, parameters),
 *   }),
 *   isTransaction: (connection) => connection.isOpen,
 *   run: (work) => database.transaction(work),
 * });
 * ```
 */
export class SqlFence<Transaction> extends TableFence<Transaction> {
  constructor(
    protected override readonly adapter: SqlFenceAdapter<Transaction>,
    options?: SqlFenceOptions,
  ) {
    super(adapter, options);
  }

  async advance(
    transaction: Transaction,
    token: FenceToken | undefined,
    options?: FenceKeys,
  ): Promise<void> {
    const claims = this.claimsOf(token, keysOf('fence.advance', options));
    const isInside = this.adapter.isTransaction(Object(transaction) as Transaction);
    // Without `await` where it is known at once: what a caller sends that forgot its own stays behind this.
    if (isInside !== true && !(await isInside)) throw outsideTransaction(claims);
    const call = openCalls.get(transaction as object);
    const advancing = async () => {
      try {
        await runStepsOn(this.adapter.executor(transaction), advanceFence(this.table, claims));
      } catch (error) {
        if (call && isStaleTokenError(error)) call.refusal = { error, token, claims };
        throw error;
      }
    };
    // By the fence of the transaction when that has been rolled back.
    if (call?.of === this) return advancing();
    await this.reporter.reporting(token, claims, 'advance', advancing);
  }

  protected override async attempt<Result>(call: FenceCall<Transaction, Result>): Promise<Result> {
    const { claims, work, options = {}, isClaim } = call;
    const { dialect, checksAtCommit } = this.adapter;
    const commit: CommitCheck = {};
    const settings = transactionSettings(options, dialect);
    const run = async (transaction: Transaction): Promise<Result> => {
      openCalls.set(transaction as object, call);
      try {
        const executor = this.adapter.executor(transaction);
        for (const setting of settings) await executor.query(setting, []);
        const rows = await runStepsOn(executor, advanceFence(this.table, claims));
        const fenceSql = fenceSqlOf(dialect);
        if (fenceSql.mark && !isClaim) await executor.query(fenceSql.mark, []);
        const result = await this.context.run(call, () => work(transaction));
        if (call.refusal) throw call.refusal.error;
        if (checksAtCommit) commit.check = fenceSql.checkMark(rows);
        else if (!isClaim) await executor.query(fenceSql.checkMark(rows), []).catch(refuseEnded);
        return result;
      } catch (error) {
        throw call.refusal && isAbortedTransactionError(error) ? call.refusal.error : error;
      } finally {
        openCalls.delete(transaction as object);
      }
    };
    return this.adapter.run(run, options.isolationLevel, commit);
  }

  protected override inTransaction<Result>(steps: () => SqlSteps<Result>): Promise<Result> {
    const { adapter } = this;
    const run = (transaction: Transaction) => runStepsOn(adapter.executor(transaction), steps());
    return adapter.run(run, PLAIN_READS[adapter.dialect], {});
  }
}

/** Levels whose reads lock nothing, also where the default of the database is stricter. */
const PLAIN_READS = {
  postgresql: 'read committed',
  mysql: 'repeatable read',
  sqlite: undefined,
} as const;

/** SET LOCAL of PostgreSQL; the values are checked numbers, so no parameter is needed (and SET takes none). */
function transactionSettings(options: Partial<TransactionOptions>, dialect: SqlDialect): string[] {
  const settings = {
    lockTimeout: 'lock_timeout',
    idleInTransactionTimeout: 'idle_in_transaction_session_timeout',
  } as const;
  return Object.entries(settings).flatMap(([name, setting]) => {
    const value = options[name as keyof typeof settings];
    if (value === undefined) return [];
    if (dialect === 'postgresql') return [`SET LOCAL ${setting} = ${value}`];
    throw new RedlockConfigError(
      name,
      value,
      `it is a setting of PostgreSQL; set the one of ${dialect} on its connection`,
    );
  });
}
