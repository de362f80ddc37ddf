import type { RedlockErrorCode } from '../../../lib/core/errors.ts';
import { ms } from '../../../test/history/holding.ts';
import type { AnsweredEvent } from '../campaign-event.ts';
import type { Call, RunFacts } from './facts.ts';
import { intervalAt, type Timeline } from './intervals.ts';
import { quorumTimes } from './node-health.ts';
import { dueBy, lateBy, placeOf, ranSince } from './processes.ts';
import { SLACK_MS, type CampaignViolation, type Finding } from './verdict.ts';

/** The codes with which an acquire may end, other than by a mistake of its caller. */
const EXPECTED: ReadonlySet<string> = new Set<RedlockErrorCode>([
  'LOCK_BUSY',
  'QUORUM_UNAVAILABLE',
]);
/** Timers are late, and answers are read some time after they arrived. */
const READING_MS = 50;
/** ioredis ends a connection sooner; this is when the client stops waiting for that. */
const DISCONNECT_LIMIT_MS = 1_000;

/**
 * Calls that were not granted wait their time, and end with a code for what an acquire can meet; and with that for an outage
 * only where there was one, however short they were ready to wait. An outage may be found by the try of another caller up to two node timeouts
 * before, and a try takes one: so for that long, not counting when the process did not run, there must have been a moment
 * without a quorum that answers and may vote. One that blames its own process had no time when that did not run.
 */
export function checkRefusals(facts: RunFacts): Finding<'refusals' | 'outages'> {
  const { calls, limits, measuredFrom } = facts;
  const refusals: Record<string, number> = {};
  let outages = 0;
  const violations: CampaignViolation[] = [];
  const known = new Map<string, (answer: AnsweredEvent) => boolean>();
  for (const { asked, keys, answered } of calls) {
    if (answered === undefined || answered.outcome === 'granted') continue;
    const { process, at, outcome, message: said = '' } = answered;
    const broken = (rule: CampaignViolation['rule'], why: string): void => {
      const message = `'${keys.join()}': call ${asked.call} ended with ${outcome} at ${ms(at)}, ${why}: ${said}`;
      violations.push({ rule, key: keys.join(), at, message });
    };
    refusals[outcome] = (refusals[outcome] ?? 0) + 1;
    if (at < asked.at + asked.waitMs - limits.nodeTimeoutMs)
      broken('unexpected-refusal', 'before its wait was over');
    if (!EXPECTED.has(outcome)) broken('unexpected-refusal', 'which is no answer to a right call');
    if (outcome !== 'QUORUM_UNAVAILABLE') continue;
    if (at > measuredFrom) outages += 1;
    const worker = placeOf(process);
    const couldVote = known.get(worker) ?? quorumFor(facts, worker);
    known.set(worker, couldVote);
    if (couldVote(answered) && !hadNoTime(facts, asked.at, answered))
      broken('false-outage', 'although a quorum answered and might vote');
  }
  return { violations, measures: { refusals, outages } };
}

/** Whether `worker` had a quorum for the whole time before it was refused. */
function quorumFor(facts: RunFacts, worker: string): (answer: AnsweredEvent) => boolean {
  const { nodeTimeoutMs } = facts.limits;
  const { votes } = quorumTimes(facts, worker, 'for clients');
  // A try has a quorum only of those that vote throughout it.
  const stable = quorumTimes(facts, worker, 'for clients', nodeTimeoutMs).votes;
  return ({ process, at }) => {
    const isSince = (times: Timeline, durationMs: number): boolean =>
      (intervalAt(times, at)?.from ?? Infinity) <=
      ranSince(facts.processes.get(process)!, at, durationMs);
    const lookMs = 3 * nodeTimeoutMs + READING_MS;
    return isSince(votes, lookMs) && isSince(stable, lookMs - nodeTimeoutMs);
  };
}

/**
 * Answer says that no node was asked, and its process did not run for half of its time, which is kept for its own try; or that
 * its process did not run for so long, and that is true for half of that time at least.
 */
function hadNoTime(
  { of }: RunFacts,
  askedAt: number,
  { process, at, message = '' }: AnsweredEvent,
): boolean {
  const [, pausedMs] = /this process: did not run for (\d+) ms/.exec(message) ?? [];
  if (pausedMs === undefined && !message.includes('before a server could be asked')) return false;
  let stalledMs = 0;
  for (const stall of of('stalled'))
    if (stall.process === process)
      stalledMs += Math.max(0, Math.min(stall.to, at) - Math.max(stall.from, askedAt));
  return stalledMs >= Number(pausedMs ?? at - askedAt) / 2;
}

/** A call that has to end by itself. */
interface Task {
  readonly process: string;
  readonly key?: string;
  readonly what: string;
  readonly rule: CampaignViolation['rule'];
  readonly dueAt: number;
  readonly limitMs: number;
  readonly endedAt: number | undefined;
}

/** Calls end in their time, not counting when their process did not run, and all end. */
export function checkBudgets(facts: RunFacts): Finding {
  const { calls, holdings, releaseAnsweredAt, of, limits, processes } = facts;
  const { nodeTimeoutMs } = limits;
  const tasks: Task[] = [
    ...calls.map((call) => acquireTask(call, facts)),
    ...holdings.flatMap(({ granted: { process, holder, keys }, released }): Task[] => {
      if (!released) return [];
      const [what, rule] = [`the release of ${holder}`, 'release-over-budget'] as const;
      const limitMs = nodeTimeoutMs + SLACK_MS;
      const endedAt = releaseAnsweredAt.get(holder);
      return [{ process, key: keys.join(), what, rule, dueAt: released.at, limitMs, endedAt }];
    }),
    ...of('closed').map(({ process, from, at }): Task => {
      const limitMs = nodeTimeoutMs + DISCONNECT_LIMIT_MS + SLACK_MS;
      const rule = 'close-over-budget';
      return { process, what: 'the close', rule, dueAt: from, limitMs, endedAt: at };
    }),
  ];
  const violations = tasks.flatMap((task): CampaignViolation[] => {
    const { key, what, rule, dueAt, limitMs, endedAt } = task;
    const process = processes.get(task.process)!;
    const isLate =
      endedAt === undefined
        ? process.lastSeenAt > dueBy(process, dueAt, limitMs)
        : lateBy(process, dueAt, endedAt, limitMs) > limitMs;
    if (!isLate) return [];
    const end = endedAt === undefined ? 'never ended' : `ended at ${ms(endedAt)}`;
    const message = `${what} of ${task.process} ${end}, but was due at ${ms(dueAt)}, and ${ms(limitMs)} later at the latest, not counting when its process did not run`;
    return [{ rule: endedAt === undefined ? 'call-never-ended' : rule, key, at: dueAt, message }];
  });
  return { violations, measures: {} };
}

/** The task of an acquire, which ends after its wait, or one node timeout if that is longer. */
function acquireTask({ asked, keys, answered }: Call, { processes, limits }: RunFacts): Task {
  const { call, process, at, waitMs } = asked;
  // The process wrote this down before the call: stopped in between, it called when it ran again.
  const calledAt = intervalAt(processes.get(process)!.downtime, at)?.to ?? at;
  return {
    process,
    key: keys.join(),
    what: `acquire ${call}`,
    rule: 'acquire-over-budget',
    dueAt: calledAt + Math.max(waitMs, limits.nodeTimeoutMs),
    limitMs: SLACK_MS,
    endedAt: answered?.at,
  };
}
