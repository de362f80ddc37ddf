import { setTimeout as delay } from 'node:timers/promises';
import { durationMs, type Duration } from '../../core/options/duration.ts';
import { RedlockConfigError, type StaleTokenError } from '../../core/errors.ts';
import { advanceFence } from './advance-fence.ts';
import type {
  Fence,
  FenceEventListener,
  FenceKeys,
  FenceToken,
  FenceTransactionOptions,
  SqlFenceOptions,
} from '../fence.ts';
import { fenceClaims, type FenceClaim } from '../fence-claim.ts';
import { FenceContext } from '../fence-context.ts';
import { FenceReporter, isStaleTokenError } from '../fence-reporter.ts';
import { fenceSqlOf, fenceTable } from './dialect.ts';
import { isAbortedTransactionError, isRetryableSqlError } from './sql-error.ts';
import type { SqlExecutor, SqlFenceAdapter } from './sql-executor.ts';

const DEFAULT_ATTEMPTS = 10;
const MAX_RETRY_DELAY_MS = 200;

/** The state of one call of `transaction`: set when work inside it brought a token that is stale. */
interface Opened {
  refusal?: StaleTokenError;
}

/** The fence over any SQL database: one table, whose row locks order the holders. */
export class SqlFence<Transaction> implements Fence<Transaction> {
  protected readonly table: string;
  protected readonly reporter: FenceReporter;
  protected readonly context = new FenceContext();
  /** Transactions this fence opened, each with the refusal that dooms it, even if the work swallows the error. */
  private readonly opened = new WeakMap<object, Opened>();

  constructor(
    protected readonly adapter: SqlFenceAdapter<Transaction>,
    options: SqlFenceOptions = {},
  ) {
    this.table = fenceTable(options.table);
    this.reporter = new FenceReporter(options);
  }

  async transaction<Result>(
    token: FenceToken | undefined,
    work: (transaction: Transaction) => Promise<Result> | Result,
    options: FenceTransactionOptions = {},
  ): Promise<Result> {
    const claims = fenceClaims(token, options.keys);
    this.context.refuseNested(claims);
    const settings = transactionSettings(options, this.adapter.dialect);
    const opened: Opened = {};
    const attempt = (): Promise<Result> =>
      this.adapter.run(
        (transaction) => this.attempt(transaction, opened, claims, settings, work),
        options.isolationLevel,
      );
    const limit = attempts(options.attempts);
    return this.reporter.reporting(
      token,
      claims,
      'transaction',
      () => retrying(this.reporter, claims, attempt, limit),
      opened,
    );
  }

  async advance(
    transaction: Transaction,
    token: FenceToken | undefined,
    options: FenceKeys = {},
  ): Promise<void> {
    const claims = fenceClaims(token, options.keys);
    const opened = this.opened.get(transaction as object);
    const advancing = (): Promise<void> =>
      advanceFence(this.adapter.executor(transaction), this.table, claims);
    if (!opened) return this.reporter.reporting(token, claims, 'advance', advancing);
    try {
      await advancing();
    } catch (error) {
      // Reported when the transaction has been rolled back.
      if (isStaleTokenError(error)) opened.refusal = error;
      throw error;
    }
  }

  async claim(token: FenceToken | undefined, options: FenceKeys = {}): Promise<void> {
    const claims = fenceClaims(token, options.keys);
    if (this.context.covers(claims)) return;
    this.context.refuseNested(claims);
    const { autocommit } = this.adapter;
    const advancing = (executor: SqlExecutor): Promise<void> =>
      advanceFence(executor, this.table, claims);
    const attempt = () =>
      autocommit
        ? advancing(autocommit)
        : this.adapter.run((tx) => advancing(this.adapter.executor(tx)), undefined);
    await this.reporter.reporting(token, claims, 'claim', () =>
      retrying(this.reporter, claims, attempt),
    );
  }

  ddl(): string {
    return fenceSqlOf(this.adapter.dialect).ddl(this.table);
  }

  observe(listener: FenceEventListener): () => void {
    return this.reporter.observe(listener);
  }

  /** One run of the transaction, whose first statement after its settings is the advance. */
  private async attempt<Result>(
    transaction: Transaction,
    opened: Opened,
    claims: readonly FenceClaim[],
    settings: readonly string[],
    work: (transaction: Transaction) => Promise<Result> | Result,
  ): Promise<Result> {
    delete opened.refusal;
    this.opened.set(transaction as object, opened);
    const executor = this.adapter.executor(transaction);
    for (const setting of settings) await executor.query(setting, []);
    await advanceFence(executor, this.table, claims);
    try {
      const result = await this.context.run(claims, async () => work(transaction));
      if (opened.refusal) throw opened.refusal;
      return result;
    } catch (error) {
      throw opened.refusal && isAbortedTransactionError(error) ? opened.refusal : error;
    } finally {
      this.opened.delete(transaction as object);
    }
  }
}

/** Repeats a transaction that the database aborted for the sake of another one, after a random part of the delay. */
export async function retrying<Result>(
  reporter: FenceReporter,
  claims: readonly FenceClaim[],
  attempt: () => Promise<Result> | Result,
  limit: number = DEFAULT_ATTEMPTS,
  delayMs: (count: number) => number = (count) => Math.min(MAX_RETRY_DELAY_MS, 2 ** count),
): Promise<Result> {
  for (let count = 1; ; count += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (count >= limit || !isRetryableSqlError(error)) throw error;
      reporter.retried(claims, count, error);
      await delay(Math.random() * delayMs(count));
    }
  }
}

/** SET LOCAL of PostgreSQL; the values are checked numbers, so no parameter is needed (and SET takes none). */
function transactionSettings(options: FenceTransactionOptions, dialect: string): readonly string[] {
  const settings: readonly [string, string, Duration | undefined][] = [
    ['lockTimeout', 'lock_timeout', options.lockTimeout],
    [
      'idleInTransactionTimeout',
      'idle_in_transaction_session_timeout',
      options.idleInTransactionTimeout,
    ],
  ];
  return settings.flatMap(([option, name, value]) => {
    if (value === undefined) return [];
    if (dialect !== 'postgresql') {
      throw new RedlockConfigError(
        option,
        value,
        `it is a setting of PostgreSQL; set the one of ${dialect} on its connection`,
      );
    }
    return [`SET LOCAL ${name} = ${Math.ceil(durationMs(option, value, 1))}`];
  });
}

function attempts(value: number = DEFAULT_ATTEMPTS): number {
  if (Number.isInteger(value) && value >= 1) return value;
  throw new RedlockConfigError('attempts', value, 'give a whole number from 1');
}
