import type { Violation } from './check-history.ts';
import { findImpossible, type MutexOperation } from './fenced-mutex.ts';
import { ms, type Holding } from './holding.ts';

interface TimedOperation {
  readonly at: number;
  readonly operation: MutexOperation;
}

/** The history of one key, in the order of its validities, is a run of the sequential mutex; also the inner uses of its locks. */
export function checkFencedMutex(key: string, holdings: readonly Holding[]): Violation[] {
  const operations = holdings.flatMap((holding) => [...outer(holding), ...inner(holding)]);
  // Ends before begins of the same instant: validities are half open.
  const rank = ({ operation }: TimedOperation) => (operation.type === 'acquire' ? 1 : 0);
  operations.sort((a, b) => a.at - b.at || rank(a) - rank(b));
  const found = findImpossible(operations.map(({ operation }) => operation));
  if (!found) return [];
  const { at } = operations[found.index]!;
  const message = `'${key}': no run of the model: at ${ms(at)} ${found.reason}`;
  return [{ rule: 'fenced-mutex', key, at, message }];
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
