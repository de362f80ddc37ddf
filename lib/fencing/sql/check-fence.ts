import { randomUUID } from 'node:crypto';
import { isRedlockError } from '../../core/errors.ts';
import type { FenceFinding } from '../fence.ts';
import { isStaleTokenError } from '../fence-reporter.ts';
import type { Steps } from '../steps.ts';
import { advanceFence } from './advance-fence.ts';
import type { FenceTable } from './dialect.ts';
import { isLastingError, isMissingTableError, staleFacts } from './sql-error.ts';
import type { SqlExecutor } from './sql-executor.ts';

/** A claim, and what is wrong when it does not end as expected. */
interface Trial {
  readonly key: string;
  readonly isNewer: boolean;
  readonly isRefused?: boolean;
  readonly wrong: string;
}

/** Lists of claims, each in a transaction that is rolled back. A refusal comes last: on PostgreSQL it ends the transaction. */
const TRIALS: readonly (readonly Trial[])[] = [
  [
    { key: 'a', isNewer: false, wrong: 'it rejects the first token of a key' },
    { key: 'a', isNewer: true, wrong: 'it rejects the newest token of a key' },
    { key: 'A', isNewer: false, wrong: "it can't tell apart two keys that differ in case" },
    { key: 'a ', isNewer: false, wrong: "it can't tell apart two keys that differ in a blank" },
    { key: 'a', isNewer: false, isRefused: true, wrong: 'it accepts an older token' },
  ],
  [{ key: 'a', isNewer: false, wrong: 'it keeps what was rolled back' }],
];

/** It is thrown to roll the transaction back. */
class TrialOver extends Error {
  constructor(readonly wrong?: string) {
    super('rolled back');
  }
}

/**
 * Tries the table, with random keys.
 * @param use runs the statements in a transaction of their own, and rejects with what they throw
 */
export async function checkFence(
  table: FenceTable,
  use: (steps: (executor: SqlExecutor) => Steps<never>) => Promise<never>,
): Promise<readonly FenceFinding[]> {
  const prefix = `#check:${randomUUID()}:`;
  const now = Date.now() * 1_000;
  for (const trials of TRIALS) {
    try {
      await use((executor) => tried(executor, table, trials, prefix, now));
    } catch (error) {
      if (isMissingTableError(error))
        return [{ severity: 'warning', message: (error as Error).message }];
      if (isLastingError(error)) return [{ severity: 'warning', message: lasting(table, error) }];
      if (!(error instanceof TrialOver)) throw error;
      const { wrong } = error;
      if (wrong === undefined) continue;
      const message = `The fence table '${table.name}' can't tell stale tokens: ${wrong}. Create it as fence.ddl() does.`;
      return [{ severity: 'error', message }];
    }
  }
  return [];
}

function lasting({ name }: FenceTable, error: unknown): string {
  const why = (error as Error).message.replace(/\.$/, '');
  return `Fenced writes fail at the fence table '${name}': ${why}. This does not pass by itself: mend the table, the rights of the database user, or the server.`;
}

function* tried(
  executor: SqlExecutor,
  table: FenceTable,
  trials: readonly Trial[],
  prefix: string,
  now: number,
): Steps<never> {
  for (const { key, isNewer, isRefused = false, wrong } of trials) {
    const token = String(now + Number(isNewer));
    let isAdmitted = true;
    try {
      yield* advanceFence(executor, table, [{ key: prefix + key, token, holder: token }]);
    } catch (error) {
      // PostgreSQL may name another key in its refusal, which then comes as it was sent.
      const isAnswer = isRedlockError(error) || staleFacts(error).length > 0;
      if (isMissingTableError(error) || !isAnswer) throw error;
      if (!isStaleTokenError(error)) throw new TrialOver(`${wrong} (${(error as Error).message})`);
      isAdmitted = false;
    }
    if (isAdmitted === isRefused) throw new TrialOver(wrong);
  }
  throw new TrialOver();
}
