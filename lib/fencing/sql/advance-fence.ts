import { FencedUsageError } from '../../core/errors.ts';
import { staleToken, type FenceClaim } from '../fence-claim.ts';
import type { Steps } from '../steps.ts';
import { advanceStatements, FENCE_SQL, type FenceTable } from './dialect.ts';
import { send, type SqlExecutor, type SqlRow } from './sql-executor.ts';
import {
  isAbortedTransactionError,
  isEndedTransactionError,
  isMissingTableError,
  staleFacts,
} from './sql-error.ts';

/**
 * Brings the claims to the fence and locks their rows until the transaction ends.
 *
 * @returns the rows
 * @throws StaleTokenError when the fence holds a newer token, or the same one of another holder, for one of the keys, or the token is
 *   older than the table admits
 * @throws FencedUsageError when the fence table is missing; it names the migration
 */
export function* advanceFence(
  executor: SqlExecutor,
  table: FenceTable,
  claims: readonly FenceClaim[],
): Steps<readonly SqlRow[]> {
  const { statements, parameters } = advanceStatements(table, claims);
  let rows: readonly SqlRow[] = [];
  try {
    for (const sql of statements) rows = yield send(executor, sql, parameters);
  } catch (error) {
    throw fenceError(error, table, claims);
  }
  checkFenceRows(rows, claims, FENCE_SQL[table.dialect].encode);
  return rows;
}

/** The error of a fence statement in our words: stale, no table, or unchanged. */
export function fenceError(
  error: unknown,
  { dialect, name: table }: FenceTable,
  claims: readonly FenceClaim[],
): unknown {
  for (const [key, token, holder] of staleFacts(error).toReversed()) {
    const claim = claims.find((each) => each.key === key);
    if (claim) return staleToken(key, claim.token, token, holder);
  }
  const keys = claims.map((each) => each.key);
  const [schema] = table.includes('.') ? table.split('.') : [];
  if (isMissingTableError(error)) {
    return new FencedUsageError(
      `The fence table '${table}' does not exist in this database, so nothing can be written under a lock. Create it in a migration${schema ? `, after the schema '${schema}'` : ''}; fence.ddl() returns this SQL:\n${FENCE_SQL[dialect].ddl(table)}`,
      keys,
      { cause: error },
    );
  }
  return error;
}

/** The refusal of an `advance` whose row lock would end at once. */
export function outsideTransaction(claims: readonly FenceClaim[]): FencedUsageError {
  return new FencedUsageError(
    'advance was called outside a transaction: the row of the fence would be free again before the write. Begin the transaction first and pass what your driver or ORM gives for it, or use fence.transaction; fence.claim is for reads outside.',
    claims.map((claim) => claim.key),
  );
}

/** The work in a transaction of the fence has ended it. @param cause what found that */
function endedTransaction(cause: unknown): FencedUsageError {
  const why = isAbortedTransactionError(cause)
    ? 'PostgreSQL rolled the transaction back: one of its statements had failed and the error was swallowed. Nothing was written. Let errors of statements end the transaction, or use savepoints.'
    : 'The transaction had ended before its commit: its work ran COMMIT or ROLLBACK, one of its statements commits or rolls back by itself, such as CREATE TABLE on MySQL or INSERT OR ROLLBACK on SQLite, or failed with a deadlock and the error was swallowed. What it wrote outside the transaction was not fenced. Leave the transaction to the fence, and let errors of statements end it.';
  return new FencedUsageError(why, [], { cause });
}

/** @throws FencedUsageError when the commit, or the check of the mark before it, found that the transaction is over */
export function refuseEnded(cause: unknown): never {
  throw isAbortedTransactionError(cause) || isEndedTransactionError(cause)
    ? endedTransaction(cause)
    : cause;
}

/** @throws StaleTokenError unless every claim stands in its row: token and holder, compared as text */
function checkFenceRows(
  rows: readonly SqlRow[],
  claims: readonly FenceClaim[],
  encode = (key: string): string => key,
): void {
  const held = new Map(rows.map((row) => [text(row['resource']), row]));
  for (const claim of claims) {
    const row = held.get(encode(claim.key));
    if (!row || rows.length > claims.length) {
      throw new FencedUsageError(
        `The fence must answer with one row for each key, by the names of its columns, but not so for '${claim.key}'. Look at the table (see Fence.ddl) and at the executor (see SqlExecutor.query).`,
        [claim.key],
      );
    }
    const token = text(row['token']);
    const holder = text(row['holder']);
    if (token !== claim.token || holder !== claim.holder) {
      throw staleToken(claim.key, claim.token, token, holder);
    }
    const oldest = text(row['oldest'] ?? 0);
    if (BigInt(oldest) > BigInt(token)) throw staleToken(claim.key, token, oldest, '');
  }
}

/** Drivers give text as a string, and some (binary columns, COMPRESSED types) as bytes. */
function text(value: unknown): string {
  return value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : String(value);
}
