import type { RedlockErrorCode } from '../../../lib/core/errors.ts';
import { ms } from '../../history/holding.ts';
import type { AnsweredEvent } from '../campaign-event.ts';
import { intervalAt, touching, type Timeline } from './intervals.ts';
import { nodeTimes, quorumTimes } from './node-health.ts';
import { placeOf, ranSince } from './processes.ts';
import type { RunFacts } from './run-facts.ts';
import type { CampaignViolation, Finding, OutageCounts } from './run-verdict.ts';

/** Codes with which an acquire may end, other than by a mistake of its caller. */
const EXPECTED: ReadonlySet<string> = new Set<RedlockErrorCode>([
  'LOCK_BUSY',
  'QUORUM_UNAVAILABLE',
]);
/** Timers are late, and answers are read some time after they arrived. */
const SLACK_MS = 50;
/** Time before a wrong answer that is described. */
const SHOWN_MS = 3_000;

/**
 * Calls that were not granted wait their time, and end with a code for what an acquire can meet; and with that for an outage
 * only where there was one, however short they were ready to wait. An outage may be found by the try of another caller up to two node timeouts
 * before, and a try takes one: so for that long, not counting when the process did not run, there must have been a moment
 * without a quorum that answers and may vote. One that blames its own process had no time when that did not run.
 */
export function checkRefusals(facts: RunFacts): Finding<'refusals' | 'outages'> {
  const { calls, of, limits } = facts;
  const refusals: Record<string, number> = {};
  const outages: Record<keyof OutageCounts, number> = { none: 0, guard: 0, real: 0 };
  const violations: CampaignViolation[] = [];
  const askedBy = new Map(calls.map(({ asked }) => [asked.call, asked]));
  const lookMs = 3 * limits.nodeTimeoutMs + SLACK_MS;
  const kinds = new Map<string, ReturnType<typeof outageKinds>>();
  const kindOf = (process: string, at: number): keyof OutageCounts => {
    const worker = placeOf(process);
    const known = kinds.get(worker) ?? outageKinds(facts, worker);
    kinds.set(worker, known);
    const ran = facts.processes.get(process)!;
    const [from, triedFrom] = [lookMs, lookMs - limits.nodeTimeoutMs].map((durationMs) =>
      ranSince(ran, at, durationMs),
    );
    return known(from!, triedFrom!, at);
  };
  const broken = ({ call, process, at, outcome, message }: AnsweredEvent, why: string) => {
    const said = message === undefined ? '' : `: ${message}`;
    const key = askedBy.get(call)?.keys.join();
    return {
      key,
      process,
      at,
      message: `'${key}': call ${call} of ${process} ended with ${outcome} at ${ms(at)}, ${why}${said}`,
    };
  };
  for (const answer of of('answered')) {
    const { process, at, outcome, call } = answer;
    if (outcome === 'granted') continue;
    refusals[outcome] = (refusals[outcome] ?? 0) + 1;
    const { at: askedAt = at, waitMs = 0 } = askedBy.get(call) ?? {};
    const isEarly = at < askedAt + waitMs - limits.nodeTimeoutMs;
    if (isEarly || !EXPECTED.has(outcome)) {
      const why = isEarly ? 'before its wait was over' : 'which is no answer to a right call';
      violations.push({ rule: 'unexpected-refusal', ...broken(answer, why) });
    }
    if (outcome !== 'QUORUM_UNAVAILABLE') continue;
    const kind = hadNoTime(facts, answer) ? 'real' : kindOf(process, at);
    outages[kind] += 1;
    if (kind !== 'none') continue;
    const why = `although a quorum answered and might vote for the last ${ms(lookMs)} (${whenNodesVoted(facts, placeOf(process), at)})`;
    violations.push({ rule: 'false-outage', ...broken(answer, why) });
  }
  return { violations, measures: { refusals, outages } };
}

/**
 * Answer says that no node was asked, and its process did not run for half of its time, which is kept for its own try; or that
 * its process did not run for so long, and that is true for half of that time at least.
 */
function hadNoTime(
  { calls, of }: RunFacts,
  { call, process, at, message = '' }: AnsweredEvent,
): boolean {
  const [, pausedMs] = /this process: did not run for (\d+) ms/.exec(message) ?? [];
  if (pausedMs === undefined && !message.includes('before a node could be asked')) return false;
  const askedAt = calls.find(({ asked }) => asked.call === call)?.asked.at ?? at;
  let stalledMs = 0;
  for (const stall of of('stalled'))
    if (stall.process === process)
      stalledMs += Math.max(0, Math.min(stall.to, at) - Math.max(stall.from, askedAt));
  return stalledMs >= Number(pausedMs ?? at - askedAt) / 2;
}

/** Tells people who look for the cause when each node could vote for `worker`, in ms before `at`. */
function whenNodesVoted(facts: RunFacts, worker: string, at: number): string {
  const texts = Array.from({ length: facts.limits.nodes }, (_, node) => {
    const { votes } = nodeTimes(facts, worker, node, 'for clients');
    const spans = touching(votes, at - SHOWN_MS, at).map(({ from, to }) => {
      const [begin, end] = [from, to].map((each) => Math.max(each - at, -SHOWN_MS));
      return `${begin!.toFixed(0)}..${end! > 0 ? '' : end!.toFixed(0)}`;
    });
    return `node ${node} votes ${spans.join(', ') || 'never'}`;
  });
  return texts.join('; ');
}

/** Kinds of outage that there were for `worker` in the time before it was refused. */
function outageKinds(facts: RunFacts, worker: string) {
  const { votes } = quorumTimes(facts, worker, 'for clients');
  const exact = quorumTimes(facts, worker, 'exactly');
  // A try has a quorum only of those that vote throughout it.
  const stable = quorumTimes(facts, worker, 'for clients', facts.limits.nodeTimeoutMs);
  return (from: number, triedFrom: number, at: number): keyof OutageCounts => {
    const isThroughout = (times: Timeline, since = from): boolean =>
      (intervalAt(times, at)?.from ?? Infinity) <= since;
    if (isThroughout(votes) && isThroughout(stable.votes, triedFrom)) return 'none';
    return isThroughout(exact.answers) && !isThroughout(exact.votes) ? 'guard' : 'real';
  };
}
