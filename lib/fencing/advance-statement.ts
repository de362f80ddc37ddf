import { FencedUsageError } from '../core/errors.ts';
import { fenceError } from './advance-fence.ts';
import type { FenceClaim } from './fence-claim.ts';
import { postgresFenceExpressions } from './postgres-fence-sql.ts';
import { runStatement, type SqlExecutor, type SqlRow, type SqlStatement } from './sql-executor.ts';

/**
 * Check and write in one statement of PostgreSQL. The user's parameters keep their numbers; ours follow.
 *
 * @throws StaleTokenError, FencedUsageError when the statement doesn't draw from `fence`: then nothing would be checked
 */
export async function advanceStatement(
  executor: SqlExecutor,
  table: string,
  claims: readonly FenceClaim[],
  write: SqlStatement,
): Promise<readonly SqlRow[]> {
  if (!/\b(from|using|join)\s+(?:[\w"., ]+,\s*)?fence\b/i.test(write.sql)) {
    throw new FencedUsageError(
      "The statement must draw from the relation 'fence' (UPDATE … FROM fence, DELETE … USING fence, INSERT … SELECT … FROM fence): otherwise PostgreSQL doesn't look at the token. Nothing was written.",
      claims.map((claim) => claim.key),
    );
  }
  const fence = postgresFenceExpressions(table, claims, write.parameters.length + 1);
  try {
    return await runStatement(executor, {
      sql: `WITH ${fence.sql}\n${write.sql}`,
      parameters: [...write.parameters, ...fence.parameters],
    });
  } catch (error) {
    throw fenceError(error, executor.dialect, table, claims);
  }
}
