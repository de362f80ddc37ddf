import { runStatement, type SqlExecutor, type SqlRow, type SqlStatement } from './sql-executor.ts';

/** Statements of one transaction, each of which may depend on the rows of those before it. */
export type SqlSteps<Result> = Generator<SqlStatement, Result, readonly SqlRow[]>;

/** Runs the statements one after the other; errors of a statement are thrown where it was given. */
export async function runSteps<Result>(
  executor: SqlExecutor,
  steps: SqlSteps<Result>,
): Promise<Result> {
  let step = steps.next();
  while (step.done !== true) {
    let rows: readonly SqlRow[];
    try {
      rows = await runStatement(executor, step.value);
    } catch (error) {
      step = steps.throw(error);
      continue;
    }
    step = steps.next(rows);
  }
  return step.value;
}

/** The same without an `await`: nothing else can use the connection in between. */
export function runStepsNow<Result>(
  run: (statement: SqlStatement) => readonly SqlRow[],
  steps: SqlSteps<Result>,
): Result {
  let step = steps.next();
  while (step.done !== true) step = steps.next(run(step.value));
  return step.value;
}
