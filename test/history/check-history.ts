import { groupBy } from './group-by.ts';
import { collectHoldings, describeGrant, type Holding } from './holding.ts';
import { checkLosses } from './loss-check.ts';
import type { LockHistoryEvent } from './lock-history.ts';
import { checkTokenOrder } from './token-order-check.ts';
import { checkValidity } from './validity-check.ts';

/** A promise that the history shows broken. */
export interface Violation {
  readonly rule:
    | 'duplicate-token'
    | 'duplicate-holder'
    | 'decreasing-token'
    | 'overlapping-validity'
    | 'expired-grant'
    | 'step-outside-validity'
    | 'extended-after-end'
    | 'late-loss'
    | 'untold-loss'
    | 'changed-token';
  readonly key: string;
  /** When it showed, on the clock of the history. */
  readonly at: number;
  /** Message for people: names the events that contradict each other. */
  readonly message: string;
  /** Time for which both believed to hold it, of `overlapping-validity`. */
  readonly overlapMs?: number;
  /** Holder that was granted first, of `overlapping-validity`. */
  readonly earlierHolder?: string;
  /** And the one that was granted beside it. */
  readonly laterHolder?: string;
}

export interface CheckOptions {
  /** Time after the end of validity within which a running process must be told of a loss: timers are never exact. @default 50 */
  readonly lossToleranceMs?: number;
}

/**
 * Everything that is wrong with a history; empty when it keeps every promise.
 *
 * Locks on several keys count on each of their keys: one token for the set is a token of every key.
 */
export function checkHistory(
  history: readonly LockHistoryEvent[],
  { lossToleranceMs = 50 }: CheckOptions = {},
): Violation[] {
  const holdings = collectHoldings(history);
  const violations = [
    ...checkHolders(holdings),
    ...checkLosses(history, holdings, lossToleranceMs),
  ];
  for (const [key, ofKey] of groupBy(holdings, ({ granted }) => granted.keys)) {
    violations.push(...checkTokenOrder(key, ofKey), ...checkValidity(key, ofKey));
  }
  return violations;
}

/** A holder belongs to one grant. */
function checkHolders(holdings: readonly Holding[]): Violation[] {
  const first = new Map<string, Holding>();
  const violations: Violation[] = [];
  for (const holding of holdings) {
    const { holder, keys } = holding.granted;
    const earlier = first.get(holder);
    if (earlier) {
      violations.push({
        rule: 'duplicate-holder',
        key: keys.join(),
        at: holding.granted.at,
        message: `One holder for two grants: ${describeGrant(earlier.granted)} and ${describeGrant(holding.granted)}`,
      });
    } else {
      first.set(holder, holding);
    }
  }
  return violations;
}
