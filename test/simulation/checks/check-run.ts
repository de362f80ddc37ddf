import { checkHistory } from '../../history/check-history.ts';
import { collectHoldings } from '../../history/holding.ts';
import type { Holding } from '../../history/holding.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import type { Family } from '../families/plan.ts';
import type { RunContext } from '../world/run-context.ts';
import type { Violation } from './violations.ts';

/** What only holds when keys live as long as they should. */
const NEED_TIMING: readonly Violation['rule'][] = [
  'overlapping-validity',
  'fenced-mutex',
];

const KEYS_VANISH: readonly Family[] = ['early', 'repair', 'calendar'];

const WAKING_MS = 5;

/** Judges the history of a run by the promises that hold under its assumptions. */
export function checkRun(run: RunContext): void {
  const { plan, history, violations, resource, counts } = run;
  const timely = !KEYS_VANISH.includes(plan.family);
  // Timers are late by less than the holder is told ahead, so there is nothing to tolerate but rounding.
  for (const { rule, message } of checkHistory(history.map(excused), { lossToleranceMs: 0.01 })) {
    if (timely || !NEED_TIMING.includes(rule)) violations.push({ rule, message });
  }
  counts.writes = resource.writes;
  counts.refusedWrites = resource.refusals.length;
  counts.staleWritesTaken = resource.staleWritesTaken;
  if (timely) checkRefusals(run, collectHoldings(history));
}

/** A process that was stopped tells a loss as soon as its timers run again. */
function excused(event: LockHistoryEvent): LockHistoryEvent {
  return event.type === 'stalled' ? { ...event, to: event.to + WAKING_MS } : event;
}

/** A fenced resource refuses nobody who is inside its validity. */
function checkRefusals({ resource, violations }: RunContext, holdings: readonly Holding[]): void {
  const byHolder = new Map(holdings.map((holding) => [holding.granted.holder, holding]));
  for (const { key, holder, token, highestToken, atMs } of resource.refusals) {
    const holding = byHolder.get(holder);
    if (!holding || atMs >= holding.endedAt) continue;
    const message = `'${key}': the write of ${holder} with token ${token} was refused at ${atMs.toFixed(3)} ms, inside its validity, because of token ${highestToken}`;
    violations.push({ rule: 'legitimate-holder-refused', message, atMs });
  }
}
