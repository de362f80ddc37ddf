import type { Violation } from './check-history.ts';
import { ms, type Holding } from './holding.ts';
import {
  fencedMutex,
  findImpossible,
  reentrantFencedMutex,
  type MutexModel,
  type MutexOperation,
} from './fenced-mutex.ts';

interface TimedOperation {
  readonly at: number;
  readonly operation: MutexOperation;
}

/** The history of one key, in the order of its validities, is a run of the sequential fenced mutex. */
export function checkFencedMutex(key: string, holdings: readonly Holding[]): Violation[] {
  return run('fenced-mutex', fencedMutex, key, holdings.flatMap(outer));
}

/** The same, with the inner uses of locks that were joined. */
export function checkReentrantFencedMutex(key: string, holdings: readonly Holding[]): Violation[] {
  const operations = holdings.flatMap((holding) => [...outer(holding), ...inner(holding)]);
  return run('reentrant-fenced-mutex', reentrantFencedMutex, key, operations);
}

/** Acquire and end of a grant that was valid for a while; one that was over at once never owned anything. */
function outer({ granted, endedAt }: Holding): TimedOperation[] {
  if (endedAt <= granted.at) return [];
  const client = granted.holder;
  return [
    { at: granted.at, operation: { type: 'acquire', client, fence: granted.token } },
    { at: endedAt, operation: { type: 'expire', client } },
  ];
}

function inner({ granted, endedAt, steps }: Holding): TimedOperation[] {
  const client = granted.holder;
  return steps.flatMap((step): TimedOperation[] => {
    if (step.at >= endedAt || step.type === 'step') return [];
    return step.type === 'reentered'
      ? [{ at: step.at, operation: { type: 'acquire', client, fence: step.token } }]
      : [{ at: step.at, operation: { type: 'release', client } }];
  });
}

function run<State>(
  rule: Violation['rule'],
  model: MutexModel<State>,
  key: string,
  operations: TimedOperation[],
): Violation[] {
  // Ends before begins of the same instant: validities are half open.
  const rank = ({ operation }: TimedOperation) => (operation.type === 'acquire' ? 1 : 0);
  const ordered = operations.sort((a, b) => a.at - b.at || rank(a) - rank(b));
  const found = findImpossible(
    model,
    ordered.map(({ operation }) => operation),
  );
  if (!found) return [];
  const { at } = ordered[found.index]!;
  return [
    { rule, key, at, message: `'${key}': no run of the model: at ${ms(at)} ${found.reason}` },
  ];
}
