import { ms } from '../../history/holding.ts';
import { intervalAt } from './intervals.ts';
import { dueBy, lateBy } from './processes.ts';
import type { RunFacts } from './run-facts.ts';
import type { CampaignViolation, Finding } from './run-verdict.ts';

/** Task that must end in time as long as its process runs. */
interface Task {
  readonly process: string;
  readonly key: string | undefined;
  /** Description for people. */
  readonly what: string;
  readonly rule: 'acquire-over-budget' | 'release-over-budget' | 'close-over-budget';
  /** When it may be over at the earliest; stalls before that cost nothing. */
  readonly dueAt: number;
  readonly limitMs: number;
  readonly endedAt: number | undefined;
}

/** Acquires, releases and closes end within their budgets, and all end. */
export function checkBudgets(facts: RunFacts): Finding {
  const { processes } = facts;
  const tasks = [...acquiresOf(facts), ...releasesOf(facts), ...closesOf(facts)];
  const violations: CampaignViolation[] = [];
  for (const { process: name, key, what, rule, dueAt, limitMs, endedAt } of tasks) {
    const process = processes.get(name)!;
    if (endedAt === undefined) {
      const dueMs = dueBy(process, dueAt, limitMs);
      if (process.lastSeenAt <= dueMs) continue;
      const message = `${what} never ended; it was due at ${ms(dueMs)}, and its process still ran at ${ms(process.lastSeenAt)}`;
      violations.push({ rule: 'call-never-ended', key, process: name, at: dueMs, message });
      continue;
    }
    const lateMs = lateBy(process, dueAt, endedAt, limitMs);
    if (lateMs <= limitMs) continue;
    const message = `${what} ended at ${ms(endedAt)}, ${ms(lateMs)} after ${ms(dueAt)} although ${ms(limitMs)} are enough, not counting when its process did not run`;
    violations.push({ rule, key, process: name, at: endedAt, message });
  }
  return { violations, measures: {} };
}

function acquiresOf({ calls, limits, processes }: RunFacts): Task[] {
  const [rule, limitMs] = ['acquire-over-budget', limits.callOverrunMs] as const;
  return calls.map(({ asked, keys, answered }) => {
    const { call, process, at, waitMs } = asked;
    const key = keys.join();
    const what = `'${key}': acquire ${call} of ${process}, asked at ${ms(at)} with a wait of ${waitMs} ms,`;
    // Process wrote this down before the call: stopped in between, it called when it ran again.
    const calledAt = intervalAt(processes.get(process)!.downtime, at)?.to ?? at;
    const dueAt = calledAt + Math.max(waitMs, limits.nodeTimeoutMs);
    return { process, key, what, rule, dueAt, limitMs, endedAt: answered?.at };
  });
}

function releasesOf({ holdings, releaseAnsweredAt, limits }: RunFacts): Task[] {
  const [rule, limitMs] = ['release-over-budget', limits.releaseMs] as const;
  return holdings.flatMap(({ granted: { process, holder, keys }, released }): Task[] => {
    if (!released) return [];
    const key = keys.join();
    const what = `'${key}': the release of ${process} (holder ${holder}), begun at ${ms(released.at)},`;
    const endedAt = releaseAnsweredAt.get(holder);
    return [{ process, key, what, rule, dueAt: released.at, limitMs, endedAt }];
  });
}

function closesOf({ of, limits }: RunFacts): Task[] {
  const [rule, limitMs] = ['close-over-budget', limits.closeMs] as const;
  return of('closed').map(({ process, from, at }) => {
    const what = `${process}: the close, begun at ${ms(from)},`;
    return { process, key: undefined, what, rule, dueAt: from, limitMs, endedAt: at };
  });
}
