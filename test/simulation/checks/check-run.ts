import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { checkHistory } from '../../history/check-history.ts';
import { collectHoldings } from '../../history/holding.ts';
import type { Holding } from '../../history/holding.ts';
import type { LockHistoryEvent } from '../../history/lock-history.ts';
import type { Family } from '../families/plan.ts';
import { broke } from '../world/run-context.ts';
import type { RunContext } from '../world/run-context.ts';
import type { Violation } from './violations.ts';

/** Rules that only hold when keys live as long as they should. */
const NEED_TIMING: readonly Violation['rule'][] = ['overlapping-validity'];

/** Rules about time: after its system slept a process finds out when it looks. */
const IN_TIME: readonly Violation['rule'][] = ['late-loss', 'untold-loss'];

export const KEYS_VANISH: readonly Family[] = ['early', 'repair', 'calendar'];

/** Time within which a process gets to everything that is due after a stall. */
export const WAKING_MS = 5;

/** Locks that may live: of each caller's chain of jobs the present one and those around it. */
const MAY_LIVE = 12;

/** Checks that nobody keeps alive what is over, also not the jobs that were started from inside it. */
export async function checkKept(run: RunContext): Promise<void> {
  setFlagsFromString('--expose-gc');
  await new Promise((resolve) => setImmediate(resolve));
  (runInNewContext('gc') as () => void)();
  const kept = run.ended.filter((lock) => lock.deref() !== undefined).length;
  if (kept <= MAY_LIVE) return;
  broke(
    run,
    'kept-record',
    `${kept} of ${run.ended.length} locks that are over are still in memory`,
  );
}

/** Judges the history of a run by the promises that hold under its assumptions. */
export function checkRun(run: RunContext): void {
  const { plan, history, violations, resource, counts } = run;
  const timely = !KEYS_VANISH.includes(plan.family);
  // Timers are late by less than the holder is notified ahead, so there is nothing to tolerate but rounding.
  for (const { rule, message } of checkHistory(history.map(excused), { lossToleranceMs: 0.01 })) {
    const isPromised = timely || !NEED_TIMING.includes(rule);
    if (isPromised && !(plan.family === 'suspends' && IN_TIME.includes(rule)))
      violations.push({ rule, message });
  }
  counts.writes = resource.writes;
  counts.refusedWrites = resource.refusals.length;
  counts.staleWritesTaken = resource.staleWritesTaken;
  if (timely) checkRefusals(run, collectHoldings(history));
  if (timely) checkPermits(run, collectHoldings(history));
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

/** A key with permits has at most so many holders that believe to have one. Its slots are all the locks of such a run. */
function checkPermits({ plan, violations }: RunContext, holdings: readonly Holding[]): void {
  if (plan.permits === undefined) return;
  let running: Holding[] = [];
  for (const holding of holdings) {
    const { at, holder } = holding.granted;
    if (holding.endedAt <= at) continue;
    running = [...running.filter(({ endedAt }) => endedAt > at), holding];
    if (running.length <= plan.permits) continue;
    const message = `${holder} is holder ${running.length} of ${plan.permits}`;
    violations.push({ rule: 'too-many-holders', message, atMs: at });
  }
}
