import type { Fence } from '../fencing/fence.ts';
import { FENCE_SQL } from '../fencing/sql/dialect.ts';
import { FencedTable } from '../fencing/sql/fenced-table.ts';
import type { SqlDialect } from '../fencing/sql/sql-executor.ts';

const TYPES: Readonly<Record<SqlDialect, readonly [key: string, text: string, end: string]>> = {
  postgresql: ['text COLLATE "C"', 'text', ''],
  // A collation would take two keys for one, and the character set of a connection may lack some of an answer.
  mysql: ['VARBINARY(2500)', 'LONGBLOB', ' ENGINE = InnoDB ROW_FORMAT = DYNAMIC'],
  sqlite: ['TEXT', 'TEXT', ''],
};

function createTable(table: string, dialect: SqlDialect): string {
  const [key, text, end] = TYPES[dialect];
  return `CREATE TABLE IF NOT EXISTS ${table} (
  resource ${key} NOT NULL PRIMARY KEY,
  fingerprint CHAR(64) NOT NULL,
  result ${text} NOT NULL,
  token BIGINT NOT NULL,
  created BIGINT NOT NULL,
  until BIGINT NOT NULL
)${end};`;
}

/** What was stored for a key. */
export interface StoredAnswer {
  /** The digest of the payload. */
  readonly fingerprint: string;
  /** JSON. */
  readonly answer: string;
}

/** The answers by their keys, in the database of a fence. Its times are microseconds since 1970, by the clock of that. */
export class OnceTable {
  readonly #table: FencedTable;

  /** @throws RedlockConfigError when it is no fence in an SQL database */
  constructor(fence: Pick<Fence, 'claim'> | undefined) {
    this.#table = new FencedTable('OnceService', fence, 'redlock_once', createTable);
  }

  get ddl(): string {
    return this.#table.ddl;
  }

  /** @param transaction of the fence; without one, the statement is sent by itself */
  async find(key: string, transaction?: unknown): Promise<StoredAnswer | undefined> {
    const table = this.#table;
    const isBinary = table.dialect === 'mysql';
    const result = isBinary ? 'HEX(result)' : 'result';
    const sql = `SELECT fingerprint, ${result} AS answer FROM ${table.name} WHERE resource = ${table.text('$1')} AND until > ${FENCE_SQL[table.dialect].clock}`;
    const parameters = [table.encoded(key)];
    const [row] = await (transaction === undefined
      ? table.alone(sql, parameters)
      : table.within(transaction, sql, parameters));
    if (!row) return undefined;
    const text = String(row['answer']);
    const answer = isBinary ? Buffer.from(text, 'hex').toString() : text;
    return { fingerprint: String(row['fingerprint']), answer };
  }

  /** @throws FencedUsageError when the work has ended the transaction: its answer would stand there without its effect */
  checkOpen(transaction: unknown): Promise<void> {
    return this.#table.checkOpen(transaction);
  }

  /** Writes the answer, in place of one that was kept for long enough. */
  async store(
    transaction: unknown,
    key: string,
    { fingerprint, answer }: StoredAnswer,
    token: number,
    keepMs: number,
  ): Promise<void> {
    const table = this.#table;
    const { clock, integer } = FENCE_SQL[table.dialect];
    const insert = `INSERT INTO ${table.name} (resource, fingerprint, result, token, created, until) VALUES (${table.text('$1')}, $2, ${table.text('$3')}, CAST($4 AS ${integer}), ${clock}, ${clock} + ${keepMs}000)`;
    const set = (value: (column: string) => string) =>
      ['fingerprint', 'result', 'token', 'created', 'until']
        .map((column) => `${column} = ${value(column)}`)
        .join(', ');
    const sql =
      table.dialect === 'mysql'
        ? `${insert} ON DUPLICATE KEY UPDATE ${set((column) => `VALUES(${column})`)}`
        : `${insert} ON CONFLICT (resource) DO UPDATE SET ${set((column) => `EXCLUDED.${column}`)}`;
    const parameters = [table.encoded(key), fingerprint, table.encoded(answer), String(token)];
    await table.change(transaction, sql, parameters);
  }

  prune(): Promise<number> {
    return this.#table.prune((clock) => `until < ${clock}`);
  }
}

/**
 * The `CREATE TABLE` of the stored answers, for a migration. It is safe to run again.
 *
 * @param fence the one that `RedlockModule` is given, or that of its `postgresNode`
 * @throws RedlockConfigError when it is no fence in an SQL database
 *
 * @example
 * ```ts
 * await pool.query(fence.ddl());
 * await pool.query(onceDdl(fence));
 * ```
 */
export function onceDdl(fence: Fence): string {
  return new OnceTable(fence).ddl;
}
