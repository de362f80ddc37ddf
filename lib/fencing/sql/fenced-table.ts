import { FencedUsageError, RedlockConfigError } from '../../core/errors.ts';
import type { Fence } from '../fence.ts';
import { refuseEnded } from './advance-fence.ts';
import { asQuery, FENCE_SQL } from './dialect.ts';
import { FAILS_OUTSIDE } from './postgres-sql.ts';
import { pruneRows } from './prune-fence.ts';
import { isMissingTableError } from './sql-error.ts';
import { send, type SqlDialect, type SqlRow } from './sql-executor.ts';
import { SqlFence } from './sql-fence.ts';

/** A table of this package in the database and the schema of a fence, whose rows are written in the transactions of that fence. */
export class FencedTable {
  readonly name: string;
  readonly dialect: SqlDialect;
  /** Its `CREATE TABLE`, which is safe to run again. */
  readonly ddl: string;
  readonly #fence: SqlFence<any>;

  /**
   * @param user what needs the table, for messages
   * @param table the name, without a schema
   * @param ddl makes the statement that creates it
   * @throws RedlockConfigError when it is no fence in an SQL database
   */
  constructor(
    user: string,
    fence: Pick<Fence, 'claim'> | undefined,
    table: string,
    ddl: (table: string, dialect: SqlDialect) => string,
  ) {
    if (!(fence instanceof SqlFence)) {
      const shown = fence === undefined ? 'used without a fence' : 'used with this fence';
      const fix = `it needs a fence in an SQL database, such as RedlockModule.forRoot({ nodes, fence: postgresFence(pool) })`;
      throw new RedlockConfigError(user, undefined, fix, shown);
    }
    this.#fence = fence as SqlFence<any>;
    const { dialect, name } = this.#fence.parts.table;
    this.dialect = dialect;
    this.name = name.replace(/[^.]+$/, table);
    this.ddl = ddl(this.name, dialect);
  }

  /** A text from its parameter, for the binary columns of MySQL, too: see `encoded`. */
  text(placeholder: string): string {
    return FENCE_SQL[this.dialect].text(placeholder);
  }

  /** The value of a parameter that stands in `text`. */
  encoded(text: string): string {
    return FENCE_SQL[this.dialect].encode?.(text) ?? text;
  }

  /** Runs one statement in a transaction of the fence. @throws FencedUsageError when the table is missing */
  within(
    transaction: unknown,
    sql: string,
    parameters: readonly unknown[],
  ): Promise<readonly SqlRow[]> {
    const executor = this.#fence.parts.adapter.executor(transaction);
    return this.#naming(async () => send(executor, sql, parameters));
  }

  /** Runs one statement that gives no rows in a transaction of the fence. @throws FencedUsageError when the table is missing */
  async change(transaction: unknown, sql: string, parameters: readonly unknown[]): Promise<void> {
    await this.within(transaction, asQuery(this.dialect, sql), parameters);
  }

  /** @throws FencedUsageError when the work in a transaction of the fence has ended it, so that a statement would stand alone */
  async checkOpen(transaction: unknown): Promise<void> {
    const { mark } = FENCE_SQL[this.dialect];
    // The database is asked, since an ORM does not know what a statement of the work did.
    const statements = mark === undefined ? [FAILS_OUTSIDE] : [`RELEASE ${mark}`, mark];
    try {
      for (const sql of statements) await this.within(transaction, sql, []);
    } catch (error) {
      refuseEnded(error);
    }
  }

  /** Runs one statement by itself, outside of any transaction of the caller. @throws FencedUsageError when the table is missing */
  async alone(sql: string, parameters: readonly unknown[]): Promise<readonly SqlRow[]> {
    const { autocommit } = this.#fence.parts.adapter;
    return this.#naming(async () =>
      autocommit === undefined
        ? this.#fence.inOwnTransaction(function* (executor) {
            return (yield send(executor, sql, parameters)) as readonly SqlRow[];
          })
        : send(autocommit, sql, parameters),
    );
  }

  /**
   * Deletes old rows of a table with the key `resource`, in pages, and waits for no transaction that holds one.
   *
   * @param old makes the condition, from the expression for the time of the database
   * @returns the number of rows
   */
  prune(old: (clock: string) => string): Promise<number> {
    const { dialect, name } = this;
    const isOld = () => old(FENCE_SQL[dialect].clock);
    return this.#naming(() =>
      pruneRows({ dialect, name }, isOld, (steps) => this.#fence.inOwnTransaction(steps)),
    );
  }

  async #naming<Result>(run: () => Promise<Result>): Promise<Result> {
    try {
      return await run();
    } catch (error) {
      if (!isMissingTableError(error)) throw error;
      throw new FencedUsageError(
        `The table '${this.name}' does not exist in this database. Create it in a migration:\n${this.ddl}`,
        [],
        { cause: error },
      );
    }
  }
}
