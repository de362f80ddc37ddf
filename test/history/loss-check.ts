import type { Violation } from './check-history.ts';
import { excusedUntil } from './excused-until.ts';
import { describeGrant, ms, type Holding } from './holding.ts';
import type { LockHistoryEvent, StalledEvent } from './lock-history.ts';

/**
 * A holder hears of its loss at the latest when its validity ends. A process that did not run at that moment hears of it
 * when it runs again, so a delay is excused by a stall that the process itself recorded, and by nothing else.
 */
export function checkLosses(
  history: readonly LockHistoryEvent[],
  holdings: readonly Holding[],
  toleranceMs: number,
): Violation[] {
  const processes = observeProcesses(history);
  return holdings.flatMap((holding): Violation[] => {
    const { granted, lost, released, validUntil } = holding;
    const key = granted.keys.join();
    const process = processes.get(granted.process)!;
    const due = excusedUntil(validUntil, process.stalls, toleranceMs);
    if (lost && lost.at > due) {
      const message = `'${key}': told of its loss at ${ms(lost.at)}, ${ms(lost.at - validUntil)} after its validity ended at ${ms(validUntil)}: ${describeGrant(granted)}`;
      return [{ rule: 'late-loss', key, at: lost.at, message }];
    }
    const silent = !lost && !(released && released.at <= due) && process.lastEventAt > due;
    if (!silent) return [];
    const message = `'${key}': never told of its loss at ${ms(validUntil)}, although its process still ran at ${ms(process.lastEventAt)}: ${describeGrant(granted)}`;
    return [{ rule: 'untold-loss', key, at: validUntil, message }];
  });
}

interface ObservedProcess {
  readonly stalls: StalledEvent[];
  lastEventAt: number;
}

function observeProcesses(history: readonly LockHistoryEvent[]): Map<string, ObservedProcess> {
  const processes = new Map<string, ObservedProcess>();
  for (const event of history) {
    let process = processes.get(event.process);
    if (!process) processes.set(event.process, (process = { stalls: [], lastEventAt: -Infinity }));
    if (event.type === 'stalled') process.stalls.push(event);
    const at = event.type === 'stalled' ? event.to : event.at;
    process.lastEventAt = Math.max(process.lastEventAt, at);
  }
  for (const { stalls } of processes.values()) stalls.sort((a, b) => a.from - b.from);
  return processes;
}
