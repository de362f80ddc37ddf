import { FencedUsageError } from '../../core/errors.ts';
import { fenceError } from './advance-fence.ts';
import type { FenceClaim } from '../fence-claim.ts';
import { claimParameters } from './claim-parameters.ts';
import { postgresFenceExpressions } from './postgres-sql.ts';
import { runStatement, type SqlExecutor, type SqlRow, type SqlStatement } from './sql-executor.ts';
import { TextCache } from './text-cache.ts';

/** Long texts, which differ only by the statement, the table and how many parameters there are. */
const texts = new TextCache();

/**
 * Check and write in one statement of PostgreSQL. The user's parameters keep their numbers; those of the fence follow.
 *
 * @throws StaleTokenError, FencedUsageError when the statement doesn't draw from `fence`: then nothing would be checked
 */
export async function advanceStatement(
  executor: SqlExecutor,
  table: string,
  claims: readonly FenceClaim[],
  write: SqlStatement,
): Promise<readonly SqlRow[]> {
  const firstParameter = write.parameters.length + 1;
  const sql = texts.get(`${table} ${firstParameter} ${claims.length} ${write.sql}`, () => {
    requireFence(write.sql, claims);
    return `WITH ${postgresFenceExpressions(table, claims.length, firstParameter)}\n${write.sql}`;
  });
  const parameters = [...write.parameters, ...claimParameters(claims)];
  try {
    return await runStatement(executor, { sql, parameters });
  } catch (error) {
    throw fenceError(error, executor.dialect, table, claims);
  }
}

function requireFence(sql: string, claims: readonly FenceClaim[]): void {
  if (!/\b(from|using|join)\s+(?:[\w"., ]+,\s*)?fence\b/i.test(sql)) {
    throw new FencedUsageError(
      "The statement must draw from the relation 'fence' (UPDATE … FROM fence, DELETE … USING fence, INSERT … SELECT … FROM fence): otherwise PostgreSQL doesn't look at the token. Nothing was written.",
      claims.map((claim) => claim.key),
    );
  }
}
