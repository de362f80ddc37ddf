import type { VotedEvent } from '../campaign-event.ts';
import type { RunFacts } from './run-facts.ts';

/**
 * Reason why two holders of one key may not both have had it at `until`, by what each server had said to them by then;
 * undefined where their quorums have only such servers in common as forgot one for the other, because its clock moved or
 * because the ttl was over.
 */
export function brokenVotes(
  facts: RunFacts,
  earlier: string,
  later: string,
  until: number,
): string | undefined {
  const { nodes, ttlMs } = facts.limits;
  const votes = facts
    .of('voted')
    .filter(({ holder, at }) => at <= until && (holder === earlier || holder === later));
  for (const holder of [earlier, later]) {
    const yes = new Set(votes.flatMap((vote) => (vote.holder === holder ? [vote.node] : [])));
    if (yes.size * 2 <= nodes) return `only servers ${[...yes].join()} voted for ${holder}`;
  }
  const moves = facts.of('mark').flatMap((mark) => (mark.mark === 'clocks-moved' ? [mark] : []));
  const forgets = (first: VotedEvent, second: VotedEvent): boolean =>
    second.at - first.askedAt >= ttlMs ||
    moves.some(
      ({ nodes: moved, from, at }) =>
        moved.includes(first.node) && at >= first.askedAt && from <= second.at,
    );
  for (let node = 0; node < nodes; node += 1) {
    const ofNode = votes.filter((vote) => vote.node === node).sort((a, b) => a.at - b.at);
    const wrong = ofNode.find(
      (vote, index) =>
        index > 0 &&
        vote.holder !== ofNode[index - 1]!.holder &&
        !forgets(ofNode[index - 1]!, vote),
    );
    if (wrong) return `server ${node} voted for both, and its clock did not move in between`;
  }
  return undefined;
}
