import { beforeEach, describe, expect, it } from '@jest/globals';
import { Ballots } from '../../../../lib/core/nodes/ballots.ts';

let wall = 1_000_000;
let proposals: Ballots;

beforeEach(() => {
  wall = 1_000_000;
  proposals = new Ballots({ monotonicMs: () => 0, wallMicros: () => wall });
});

describe('Proposals', () => {
  it('proposes the wall clock', () => {
    expect(proposals.next(['a'])).toBe(1_000_000);
  });

  it('proposes one more than a fence that is ahead of the clock', () => {
    proposals.heard(['a'], 5_000_000);
    expect(proposals.next(['a'])).toBe(5_000_001);
    expect(proposals.next(['b'])).toBe(1_000_000);
    expect(proposals.next(['b', 'a'])).toBe(5_000_002);
  });

  it('never proposes a number twice while that is ahead of the clock', () => {
    proposals.heard(['a'], 5_000_000);
    expect([1, 2, 3].map(() => proposals.next(['a']))).toEqual([5_000_001, 5_000_002, 5_000_003]);
  });

  it('proposes the clock again once it has passed the fence', () => {
    proposals.heard(['a'], 5_000_000);
    wall = 6_000_000;
    expect(proposals.next(['a'])).toBe(6_000_000);
  });

  it('is above a fence that equals the clock', () => {
    proposals.heard(['a'], 1_000_000);
    expect(proposals.next(['a'])).toBe(1_000_001);
  });

  it('remembers a bounded number of keys, the newest', () => {
    for (let index = 0; index < 10_000; index += 1) proposals.heard([`key${index}`], 5_000_000);
    expect(proposals.next(['key0'])).toBe(1_000_000);
    expect(proposals.next(['key9999'])).toBe(5_000_001);
    const remembered = Array.from({ length: 10_000 }, (_, index) => `key${index}`).filter(
      (key) => proposals.next([key]) > 1_000_000,
    );
    expect(remembered).toHaveLength(4_096);
  });
});
