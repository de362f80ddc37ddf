import { RedlockConfigError } from '../../core/errors.ts';
import { keysOf, type TransactionOptions } from '../call-options.ts';
import type { FenceKeys, FenceToken, SqlFenceOptions } from '../fence.ts';
import { fenceClaims } from '../fence-claim.ts';
import { isStaleTokenError } from '../fence-reporter.ts';
import {
  advanceFence,
  checkTransaction,
  outsideTransaction,
  refuseEnded,
} from './advance-fence.ts';
import { fenceSqlOf } from './dialect.ts';
import { isAbortedTransactionError } from './sql-error.ts';
import type { CommitCheck, SqlDialect, SqlFenceAdapter } from './sql-executor.ts';
import { runSteps, type SqlSteps } from './sql-steps.ts';
import { openCalls, TableFence, type FenceCall } from './table-fence.ts';

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
    const claims = fenceClaims(token, keysOf('fence.advance', options));
    checkTransaction('advance', transaction, claims);
    const isInside = this.adapter.isTransaction(transaction);
    // Without `await` where it is known at once: what a caller sends that forgot its own stays behind this.
    if (isInside !== true && !(await isInside)) throw outsideTransaction(claims);
    const call = openCalls.get(transaction as object);
    const advancing = async () => {
      try {
        await advanceFence(this.adapter.executor(transaction), this.table, claims);
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
    delete call.refusal;
    const run = async (transaction: Transaction): Promise<Result> => {
      openCalls.set(transaction as object, call);
      try {
        const executor = this.adapter.executor(transaction);
        for (const setting of settings) await executor.query(setting, []);
        const rows = await advanceFence(executor, this.table, claims);
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
    const run = (transaction: Transaction) => runSteps(adapter.executor(transaction), steps());
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
