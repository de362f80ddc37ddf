import { describe, expect, it } from '@jest/globals';
import type { AcquireReply } from '../../../../lib/core/nodes/lock-node.ts';
import { decideBallot, nextBallot } from '../../../../lib/core/voting/vote-count.ts';
import type { BallotDecision } from '../../../../lib/core/voting/vote-count.ts';

/** What the outstanding answers can still turn the vote into, found by trying all of them. */
function reachable(
  accepted: number,
  wrongNumber: number,
  expected: number,
  quorum: number,
): Set<'won' | 'reballot' | 'failed'> {
  const outcomes = new Set<'won' | 'reballot' | 'failed'>();
  for (let yes = 0; yes <= expected; yes += 1) {
    for (let wrong = 0; yes + wrong <= expected; wrong += 1) {
      if (accepted + yes >= quorum) outcomes.add('won');
      else if (accepted + yes + wrongNumber + wrong >= quorum) outcomes.add('reballot');
      else outcomes.add('failed');
    }
  }
  return outcomes;
}

const sizes = [1, 2, 3, 4, 5, 6, 7];
const quorums = sizes.flatMap((size) =>
  sizes
    .filter((quorum) => quorum > size / 2 && quorum <= size)
    .map((quorum): [number, number] => [size, quorum]),
);

describe('decideBallot', () => {
  it.each(quorums)(
    'with %i nodes and quorum %i decides every count as soon as it is decided, and never before',
    (size, quorum) => {
      for (let accepted = 0; accepted <= size; accepted += 1) {
        for (let wrongNumber = 0; accepted + wrongNumber <= size; wrongNumber += 1) {
          for (let expected = 0; accepted + wrongNumber + expected <= size; expected += 1) {
            const decision = decideBallot({ accepted, wrongNumber, expected }, quorum);
            const possible = reachable(accepted, wrongNumber, expected, quorum);
            const certain: BallotDecision | undefined =
              accepted >= quorum ? 'won' : possible.size === 1 ? [...possible][0] : undefined;
            expect([accepted, wrongNumber, expected, decision]).toEqual([
              accepted,
              wrongNumber,
              expected,
              certain ?? 'open',
            ]);
          }
        }
      }
    },
  );

  it.each(quorums)(
    'with %i nodes and quorum %i ends when nobody is expected any more',
    (size, quorum) => {
      for (let accepted = 0; accepted <= size; accepted += 1) {
        for (let wrongNumber = 0; accepted + wrongNumber <= size; wrongNumber += 1) {
          expect(decideBallot({ accepted, wrongNumber, expected: 0 }, quorum)).not.toBe('open');
        }
      }
    },
  );
});

describe('nextBallot', () => {
  const stale = (floor: number, byClock = false, nowMicros = 0): AcquireReply => ({
    kind: 'stale',
    floor,
    nowMicros,
    byClock,
  });

  it('is above every floor and every fence that was seen', () => {
    const held: AcquireReply = { kind: 'held', remainingMs: 5, floor: 700, holder: 'other' };
    expect(nextBallot(100, [stale(300), stale(500), held])).toBe(701);
    expect(nextBallot(100, [stale(900), held])).toBe(901);
  });

  it('is above the refused ballot where another node accepted that one', () => {
    expect(nextBallot(100, [{ kind: 'accepted' }, stale(50), undefined])).toBe(101);
  });

  it("is not below the node's clock where that clock set the floor", () => {
    expect(nextBallot(100, [stale(500, true, 9_000), undefined, stale(600)])).toBe(9_001);
  });

  it("ignores a node's clock where a fence set the floor", () => {
    expect(nextBallot(100, [stale(500, false, 9_000)])).toBe(501);
  });

  it('goes back to the clocks of the nodes when it is more than a day ahead of one', () => {
    const ahead: AcquireReply = { kind: 'ahead', nowMicros: 4_000, floor: 4_500 };
    expect(nextBallot(90_000, [ahead, { kind: 'accepted' }, ahead])).toBe(4_501);
  });

  it('stays above the floor of a stale node also when another is a day behind', () => {
    const ahead: AcquireReply = { kind: 'ahead', nowMicros: 4_000, floor: 0 };
    expect(nextBallot(90_000, [ahead, stale(95_000)])).toBe(95_001);
  });
});
