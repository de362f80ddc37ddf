import { describe, expect, it } from '@jest/globals';
import { FairShare } from '../../../../lib/core/waiting/fair-share.ts';

const ROW = 4;

function grants(share: FairShare, key: string, count: number, rivals: number): void {
  for (let grant = 0; grant < count; grant += 1) share.released(key, rivals);
}

describe('FairShare', () => {
  it('lets others go first after a few grants in a row next to them, once', () => {
    const share = new FairShare();
    grants(share, 'a', ROW - 1, 1);
    expect(share.takeStepBack(['a'])).toBe(false);
    grants(share, 'a', 1, 1);
    expect(share.takeStepBack(['b'])).toBe(false);
    expect(share.takeStepBack(['b', 'a'])).toBe(true);
    expect(share.takeStepBack(['a'])).toBe(false);
  });

  it('never holds a process back that is alone', () => {
    const share = new FairShare();
    grants(share, 'a', 100, 0);
    expect(share.takeStepBack(['a'])).toBe(false);
  });

  it('forgets the row when the others left, or when one of them got the lock', () => {
    const share = new FairShare();
    grants(share, 'a', ROW, 2);
    share.released('a', 0);
    expect(share.takeStepBack(['a'])).toBe(false);
    grants(share, 'a', ROW, 2);
    share.lost(['a']);
    expect(share.takeStepBack(['a'])).toBe(false);
  });

  it('remembers a bounded number of keys', () => {
    const share = new FairShare();
    grants(share, 'first', ROW, 1);
    for (let key = 0; key < 5_000; key += 1) share.released(`key ${key}`, 1);
    expect(share.takeStepBack(['first'])).toBe(false);
  });
});
