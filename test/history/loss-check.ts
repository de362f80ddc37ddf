import type { Violation } from './check-history.ts';
import { groupBy } from './group-by.ts';
import { describeGrant, ms, type Holding } from './holding.ts';
import type { LockHistoryEvent, StalledEvent } from './lock-history.ts';

/**
 * A holder is notified of its loss at the latest when its validity ends. A process that did not run at that moment is
 * notified when it runs again, so a delay is excused by a stall that the process itself recorded, and by nothing else.
 */
export function checkLosses(
  history: readonly LockHistoryEvent[],
  holdings: readonly Holding[],
  toleranceMs: number,
): Violation[] {
  const processes = new Map(
    Array.from(
      groupBy(history, ({ process }) => [process]),
      ([name, events]) => [name, observed(events)],
    ),
  );
  return holdings.flatMap((holding): Violation[] => {
    const { granted, lost, released, validUntil } = holding;
    const key = granted.keys.join();
    const { stalls, lastSeenAt } = processes.get(granted.process)!;
    const due = excusedUntil(validUntil, stalls, toleranceMs);
    if (lost && lost.at > due) {
      const message = `'${key}': notified of its loss at ${ms(lost.at)}, ${ms(lost.at - validUntil)} after its validity ended at ${ms(validUntil)}: ${describeGrant(granted)}`;
      return [{ rule: 'late-loss', key, at: lost.at, message }];
    }
    const silent = !lost && !(released && released.at <= due) && lastSeenAt > due;
    if (!silent) return [];
    const message = `'${key}': never notified of its loss at ${ms(validUntil)}, although its process still ran at ${ms(lastSeenAt)}: ${describeGrant(granted)}`;
    return [{ rule: 'untold-loss', key, at: validUntil, message }];
  });
}

function observed(events: readonly LockHistoryEvent[]) {
  const stalls = events.filter((event): event is StalledEvent => event.type === 'stalled');
  const lastSeenAt = events.reduce(
    (latest, event) => Math.max(latest, event.type === 'stalled' ? event.to : event.at),
    -Infinity,
  );
  return { stalls: stalls.sort((a, b) => a.from - b.from), lastSeenAt };
}

/**
 * The moment by which a process must have reacted to something due at `at`; stalls in a row excuse together.
 *
 * `stalls`: when the process did not run, in order of their begins.
 */
export function excusedUntil(
  at: number,
  stalls: readonly { readonly from: number; readonly to: number }[],
  toleranceMs: number,
): number {
  let due = at + toleranceMs;
  for (const stall of stalls) {
    if (stall.from > due) break;
    if (stall.to > at) due = Math.max(due, stall.to + toleranceMs);
  }
  return due;
}
