import { checkHistory, type Violation } from '../../../test/history/check-history.ts';
import { describeGrant, ms } from '../../../test/history/holding.ts';
import type { LockHistoryEvent } from '../../../test/history/lock-history.ts';
import type { TakenEvent, VotedEvent } from '../campaign-event.ts';
import type { RunFacts } from './facts.ts';
import { touching, type Interval } from './intervals.ts';
import { unguardedQuorum } from './node-health.ts';
import { LOSS_TOLERANCE_MS, type CampaignViolation, type Finding } from './verdict.ts';

const OVERLAP = 'overlapping-validity';

/** Everything that a history of locks promises, see test/history. */
export function checkLocks(facts: RunFacts): Finding<'longestOverlapMs'> {
  const { overlapMs: mostMs } = facts.limits;
  const found = checkHistory(withAllStalls(facts), { lossToleranceMs: LOSS_TOLERANCE_MS });
  const beside = overlapsOf(found);
  const violations = found.flatMap((violation): CampaignViolation[] => {
    const { rule, key, at, message } = violation;
    if (mostMs === 0 || rule !== OVERLAP) return [{ rule, key, at, message }];
    const { earlierHolder = '', laterHolder = '', overlapMs = 0 } = violation;
    const { from, to } = beside.get(earlierHolder)!;
    if (to - from > mostMs) return [{ rule, key, at, message }];
    const reason = brokenVotes(facts, earlierHolder, laterHolder, at + overlapMs);
    return reason === undefined ? [] : [{ rule, key, at, message: `${message}; ${reason}` }];
  });
  const longestOverlapMs = Math.max(0, ...found.map(({ overlapMs = 0 }) => overlapMs));
  return { violations: [...violations, ...checkGuards(facts)], measures: { longestOverlapMs } };
}

/** The time in which each holder believed in its lock beside others: from the first of them to the last. */
function overlapsOf(found: readonly Violation[]): ReadonlyMap<string, Interval> {
  const spans = new Map<string, Interval>();
  for (const { rule, at, overlapMs = 0, earlierHolder = '' } of found) {
    if (rule !== OVERLAP) continue;
    const { from, to } = spans.get(earlierHolder) ?? { from: at, to: at };
    spans.set(earlierHolder, { from: Math.min(from, at), to: Math.max(to, at + overlapMs) });
  }
  return spans;
}

/**
 * Reason why two holders of one key may not both have had it at `until`, by what each server had said to them by then;
 * undefined where their quorums have only such servers in common as forgot one for the other, because its clock moved or
 * because the ttl was over. An extension takes every server that no rival has by then: so a minority whose clocks jump takes
 * nothing from a holder but where rivals had left it a bare quorum.
 */
function brokenVotes(
  { limits, of, holdings }: RunFacts,
  earlier: string,
  later: string,
  until: number,
): string | undefined {
  const votes = of('voted').filter(
    ({ holder, at }) => at <= until && (holder === earlier || holder === later),
  );
  for (const holder of [earlier, later]) {
    const yes = new Set(votes.flatMap((vote) => (vote.holder === holder ? [vote.node] : [])));
    if (yes.size * 2 <= limits.nodes) return `only servers ${[...yes].join()} voted for ${holder}`;
  }
  const moves = of('mark').flatMap((mark) => (mark.mark === 'clocks-moved' ? [mark] : []));
  const grantedAt = holdings.find(({ granted }) => granted.holder === earlier)?.granted.at;
  /** When the server had certainly forgotten the first vote, if it may have before it gave the second. */
  const forgottenAt = (first: VotedEvent, second: VotedEvent): number | undefined => {
    const overAt = first.askedAt + limits.ttlMs;
    const times = moves
      .filter(({ nodes, from, at }) => {
        return nodes.includes(first.node) && at >= first.askedAt && from <= second.at;
      })
      .map(({ at }) => at);
    return second.at < overAt && times.length === 0 ? undefined : Math.min(overAt, ...times);
  };
  for (let node = 0; node < limits.nodes; node += 1) {
    const ofNode = votes.filter((vote) => vote.node === node).sort((a, b) => a.at - b.at);
    for (const [index, second] of ofNode.entries()) {
      const first = ofNode[index - 1];
      const before = first?.holder ?? earlier;
      if (before === second.holder) continue;
      const since = first === undefined ? grantedAt : forgottenAt(first, second);
      if (since === undefined)
        return `server ${node} voted for both, and its clock did not move in between`;
      const isOfFirst = ({ holder, askedAt }: VotedEvent | TakenEvent): boolean =>
        holder === before && askedAt >= since;
      const isExtended = votes.some((vote) => isOfFirst(vote) && vote.at <= second.askedAt);
      const isTaken = of('taken').some((event) => isOfFirst(event) && event.node === node);
      if (isExtended && !isTaken) return `an extension of ${before} did not take server ${node}`;
    }
  }
  return undefined;
}

/** A process that was stopped may be killed before it has written down that it did not run. */
function withAllStalls({ lockHistory, processes }: RunFacts): LockHistoryEvent[] {
  const others = lockHistory.filter(({ type }) => type !== 'stalled');
  for (const [process, { downtime, ranUntil }] of processes) {
    for (const { from, to } of downtime) {
      const until = Math.min(to, ranUntil);
      if (from < until) others.push({ type: 'stalled', process, from, to: until });
    }
  }
  return others;
}

/**
 * Checks that nobody is granted while so many servers have forgotten everything that fewer than a quorum may vote: what was
 * forgotten may still be held. Grants whose attempt began before that may rest on votes of servers that then forgot.
 */
function checkGuards(facts: RunFacts): CampaignViolation[] {
  const quorum = unguardedQuorum(facts);
  return facts.holdings
    .filter(({ granted }) => touching(quorum, granted.startedAt, granted.at).length === 0)
    .map(({ granted }) => {
      const key = granted.keys.join();
      const message = `'${key}': from ${ms(granted.startedAt)} to ${ms(granted.at)} so many servers had forgotten everything that no quorum might vote, but there was a grant: ${describeGrant(granted)}`;
      return { rule: 'granted-during-guard', key, at: granted.at, message };
    });
}
