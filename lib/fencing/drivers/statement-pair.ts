import type { SqlRow, SqlStatement } from '../sql/sql-executor.ts';
import { statementName, withStatement, type PostgresPool } from './postgres-pool.ts';

/** The answers of the server to one statement, as `pg` hands them on. */
interface Answers {
  handleRowDescription(message: unknown): void;
  handleDataRow(message: unknown): void;
  handleCommandComplete(message: unknown, connection: PgConnection): void;
  handleEmptyQuery(connection: PgConnection): void;
  handleCopyInResponse(connection: PgConnection): void;
  handleCopyData(message: unknown, connection: PgConnection): void;
  handleReadyForQuery(connection: PgConnection): void;
}

/** A query of `pg`: sends its messages when it is its turn, and takes the answers to them. */
interface PgQuery extends Answers {
  name?: string | undefined;
  readonly text: string;
  readonly _result: unknown;
  requiresPreparation(): boolean;
  submit(connection: PgConnection): Error | null;
}

/** What sends the messages of the protocol. */
interface PgConnection {
  parse(statement: { name: string; text: string }): void;
  bind(statement: { statement: string; values: readonly unknown[] }): void;
  execute(portal: object): void;
  sync(): void;
  readonly stream: { cork?(): void; uncork?(): void };
  readonly parsedStatements: Readonly<Record<string, unknown>>;
  /** Older versions of `pg` have none. */
  readonly submittedNamedStatements?: Record<string, unknown>;
}

const always = (): boolean => true;

type Answer = (error: unknown, result?: { rows: readonly SqlRow[] }) => void;

/**
 * Runs two statements in one implicit transaction and one round trip: PostgreSQL skips the second one when the first fails.
 * At READ COMMITTED the second sees what others committed while the first waited for a lock.
 *
 * @param first its parameters are texts, and nobody sees its rows
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
  const run = async (client: any): Promise<readonly SqlRow[] | undefined> => {
    const { Query } = client.constructor;
    const isCapable =
      typeof Query?.prototype.submit === 'function' &&
      typeof client.connection?.sync === 'function' &&
      client.pipeline !== true;
    if (!isCapable) return undefined;
    return new Promise((resolve, reject) => {
      const answer: Answer = (error, result) =>
        error ? reject(error as Error) : resolve(result?.rows ?? []);
      client.query(new StatementPair(Query, first, second, isPrepared, refused, answer));
    });
  };
  return withStatement(pool, run);
}

/**
 * What `pg` calls a submittable, as its cursors are. The connection hands it all answers up to the next Sync.
 *
 * It sends the first statement by itself: a second query of `pg` would take as long again, and ask for a description of rows
 * that nobody reads.
 */
class StatementPair implements Answers {
  private readonly firstName: string;
  private readonly second: PgQuery;
  /** The first has succeeded. */
  private isAdmitted = false;

  constructor(
    Query: new (text: string, values: unknown[], callback: Answer) => PgQuery,
    private readonly first: SqlStatement,
    { sql, parameters }: SqlStatement,
    isPrepared: boolean,
    private readonly refused: (error: unknown) => unknown,
    /** `pg` replaces it to bound the time of the answer. */
    public callback: Answer,
  ) {
    this.firstName = isPrepared ? statementName(first.sql) : '';
    // Not in one object: `pg` copies that, which takes longer than the rest.
    this.second = new Query(sql, [...parameters], (error, result) => this.callback(error, result));
    if (isPrepared) this.second.name = statementName(sql);
    // Without parameters `pg` would use the simple protocol, in which every statement ends its transaction.
    this.second.requiresPreparation = always;
  }

  /** `pg` remembers under this name what the connection has prepared. */
  get name(): string | undefined {
    return this.isAdmitted ? this.second.name : this.firstName;
  }

  get text(): string {
    return this.isAdmitted ? this.second.text : this.first.sql;
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
      this.submitFirst(connection);
      return this.second.submit(connection);
    } finally {
      stream.uncork?.();
    }
  }

  /** Without Sync, which would end the transaction, and Describe. */
  private submitFirst(connection: PgConnection): void {
    const { firstName: name, first } = this;
    const { parsedStatements, submittedNamedStatements } = connection;
    if (!name || !(parsedStatements[name] ?? submittedNamedStatements?.[name])) {
      connection.parse({ name, text: first.sql });
      if (name && submittedNamedStatements) submittedNamedStatements[name] = first.sql;
    }
    connection.bind({ statement: name, values: first.parameters });
    connection.execute({});
  }

  handleRowDescription(message: unknown): void {
    this.second.handleRowDescription(message);
  }

  handleDataRow(message: unknown): void {
    if (this.isAdmitted) this.second.handleDataRow(message);
  }

  handleCommandComplete(message: unknown, connection: PgConnection): void {
    if (this.isAdmitted) this.second.handleCommandComplete(message, connection);
    this.isAdmitted = true;
  }

  handleEmptyQuery(connection: PgConnection): void {
    this.second.handleEmptyQuery(connection);
  }

  handleCopyInResponse(connection: PgConnection): void {
    this.second.handleCopyInResponse(connection);
  }

  handleCopyData(message: unknown, connection: PgConnection): void {
    this.second.handleCopyData(message, connection);
  }

  handleReadyForQuery(connection: PgConnection): void {
    this.second.handleReadyForQuery(connection);
  }

  handleError(error: unknown, connection?: PgConnection): void {
    if (this.isAdmitted) return this.callback(error);
    // Its Parse was skipped, so the server doesn't know the name.
    const { name = '' } = this.second;
    delete connection?.submittedNamedStatements?.[name];
    return this.callback(this.refused(error));
  }
}
