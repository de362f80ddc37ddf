import type { SqlRow, SqlStatement } from '../sql/sql-executor.ts';
import { statementName, withStatement, type PostgresPool } from './postgres-pool.ts';

/** Answers of the server to the statement that it is at. */
const ANSWERS = [
  'handleRowDescription',
  'handleDataRow',
  'handleEmptyQuery',
  'handleCopyInResponse',
  'handleCopyData',
] as const;

/** A query of `pg`: sends its messages when it is its turn, and takes the answers to them. */
interface PgQuery extends Record<(typeof ANSWERS)[number], (...answer: unknown[]) => void> {
  readonly name?: string;
  readonly text: string;
  readonly _result: unknown;
  requiresPreparation(): boolean;
  submit(connection: PgConnection): Error | null;
  handleCommandComplete(message: unknown, connection: PgConnection): void;
  handleReadyForQuery(connection: PgConnection): void;
}

interface PgConnection {
  sync(): void;
  readonly stream: { cork?(): void; uncork?(): void };
  readonly submittedNamedStatements?: Record<string, unknown>;
}

type Answer = (error: unknown, result?: { rows: readonly SqlRow[] }) => void;

interface PairedStatement extends SqlStatement {
  readonly name?: string | undefined;
}

/**
 * Runs two statements in one implicit transaction and one round trip: PostgreSQL skips the second one when the first fails.
 * At READ COMMITTED the second sees what others committed while the first waited for a lock.
 *
 * @param refused makes the error of the pair from that of the first statement
 * @returns the rows of the second; undefined for a client that can't, such as the native one of `pg`
 */
export function runStatementPair(
  pool: PostgresPool,
  first: SqlStatement,
  second: SqlStatement,
  refused: (error: unknown) => unknown,
  isPrepared: boolean,
): Promise<readonly SqlRow[] | undefined> {
  const named = (statement: SqlStatement): PairedStatement =>
    isPrepared ? { ...statement, name: statementName(statement.sql) } : statement;
  const run = async (client: any): Promise<readonly SqlRow[] | undefined> => {
    const isCapable =
      typeof client.constructor.Query?.prototype.submit === 'function' &&
      typeof client.connection?.sync === 'function' &&
      client.pipeline !== true;
    if (!isCapable) return undefined;
    return new Promise((resolve, reject) => {
      const answer: Answer = (error, result) =>
        error ? reject(error as Error) : resolve(result?.rows ?? []);
      client.query(new StatementPair(client, [named(first), named(second)], refused, answer));
    });
  };
  return withStatement(pool, run);
}

/** What `pg` calls a submittable, as its cursors are. The connection hands it all answers up to the next Sync. */
class StatementPair {
  private readonly first: PgQuery;
  private readonly second: PgQuery;
  private current: PgQuery;
  private isRefused = false;

  constructor(
    client: object,
    [first, second]: readonly [PairedStatement, PairedStatement],
    private readonly refused: (error: unknown) => unknown,
    /** `pg` replaces it to bound the time of the answer. */
    public callback: Answer,
  ) {
    const { Query } = client.constructor as unknown as {
      Query: new (config: object) => PgQuery;
    };
    const query = ({ sql, parameters, name }: PairedStatement, callback: Answer): PgQuery => {
      const made = new Query({ text: sql, values: [...parameters], name, callback });
      // Without parameters `pg` would use the simple protocol, in which every statement ends its transaction.
      made.requiresPreparation = () => true;
      return made;
    };
    this.first = query(first, (error) => this.handleError(error));
    this.second = query(second, (error, result) => this.callback(error, result));
    this.current = this.first;
    for (const name of ANSWERS)
      Object.assign(this, { [name]: (...answer: unknown[]) => this.current[name](...answer) });
  }

  /** `pg` remembers under this name what the connection has prepared. */
  get name(): string | undefined {
    return this.current.name;
  }

  get text(): string {
    return this.current.text;
  }

  /** The client gives its type parsers to it. */
  get _result(): unknown {
    return this.second._result;
  }

  submit(connection: PgConnection): Error | null {
    const { stream } = connection;
    // One packet.
    stream.cork?.();
    try {
      const withoutSync = Object.create(connection, { sync: { value: () => undefined } });
      const failure = this.first.submit(withoutSync);
      if (failure) return failure;
      if (!this.isRefused) return this.second.submit(connection);
      connection.sync();
      return null;
    } finally {
      stream.uncork?.();
    }
  }

  handleCommandComplete(message: unknown, connection: PgConnection): void {
    this.current.handleCommandComplete(message, connection);
    this.current = this.second;
  }

  handleReadyForQuery(connection: PgConnection): void {
    this.second.handleReadyForQuery(connection);
  }

  handleError(error: unknown, connection?: PgConnection): void {
    this.isRefused = this.current === this.first;
    if (!this.isRefused) return this.callback(error);
    // Its Parse was skipped, so the server doesn't know the name.
    const { name = '' } = this.second;
    delete connection?.submittedNamedStatements?.[name];
    return this.callback(this.refused(error));
  }
}
