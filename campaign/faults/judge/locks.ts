import { checkHistory, type Violation } from '../../../test/history/check-history.ts';
import { describeGrant, ms, type Holding } from '../../../test/history/holding.ts';
import type { LockHistoryEvent } from '../../../test/history/lock-history.ts';
import type { VotedEvent } from '../campaign-event.ts';
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

/** Time in which each holder believed in its lock beside others: from the first of them to the last. */
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
 * because the ttl was over. A holder that was extended has all servers, so that the clocks of a minority take nothing from it.
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
  const isEarlier = ({ granted }: Holding) => granted.holder === earlier;
  const extendedAt = holdings.find(isEarlier)?.extensions[0]?.at ?? Infinity;
  const forgets = (first: VotedEvent, second: VotedEvent): boolean =>
    second.at - first.askedAt >= limits.ttlMs ||
    moves.some(
      ({ nodes, from, at }) =>
        nodes.includes(first.node) &&
        at >= first.askedAt &&
        from <= (nodes.length * 2 < limits.nodes ? Math.min(second.at, extendedAt) : second.at),
    );
  for (let node = 0; node < limits.nodes; node += 1) {
    const ofNode = votes.filter((vote) => vote.node === node).sort((a, b) => a.at - b.at);
    const isWrong = ofNode.some(
      (vote, index) =>
        index > 0 &&
        vote.holder !== ofNode[index - 1]!.holder &&
        !forgets(ofNode[index - 1]!, vote),
    );
    if (isWrong) return `server ${node} voted for both, and its clock did not move in between`;
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
