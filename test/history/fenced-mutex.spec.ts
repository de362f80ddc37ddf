import { describe, expect, it } from '@jest/globals';
import { findImpossible, type MutexOperation } from './fenced-mutex.ts';

const acquire = (client: string, fence: number | null): MutexOperation => ({
  type: 'acquire',
  client,
  fence,
});
const release = (client: string): MutexOperation => ({ type: 'release', client });
const expire = (client: string): MutexOperation => ({ type: 'expire', client });
const [a1, a2] = [acquire('a', 1), acquire('a', 2)];
const [aEnds, bEnds] = [release('a'), release('b')];

describe('the fenced mutex', () => {
  it.each<[string, MutexOperation[]]>([
    ['fences that grow', [a1, aEnds, acquire('b', 5), expire('b'), acquire('a', 6)]],
    ['an unknown fence between', [a2, aEnds, acquire('b', null), bEnds, acquire('a', 4)]],
    ['entering again with the same fence', [a1, a1, aEnds, aEnds, acquire('b', 2)]],
    ['an expiry whatever the depth', [a1, a1, expire('a'), acquire('b', 2)]],
    ['a fence learned on re-entry', [acquire('a', null), a2, a2]],
  ])('allows %s', (_, operations) => {
    expect(findImpossible(operations)).toBeNull();
  });

  it.each<[string, MutexOperation[], string]>([
    ['two owners', [a1, acquire('b', 2)], 'b acquires while a holds'],
    ['another fence on re-entry', [a1, a2], 'a enters again with fence 2, having 1'],
    ['the same fence again', [a2, aEnds, acquire('b', 2)], 'fence 2, but 2 was seen'],
    ['a lower fence', [a2, aEnds, acquire('b', 1)], 'fence 1, but 2 was seen'],
    [
      'a lower fence behind an unknown one',
      [acquire('a', 3), aEnds, acquire('b', null), bEnds, acquire('c', 2)],
      'fence 2, but 3 was seen',
    ],
    ['a foreign release', [a1, bEnds], 'b ends a lock of a'],
    ['a release of a free lock', [expire('b')], 'b ends a lock that no one holds'],
    ['another owner before the outer release', [a1, a1, aEnds, acquire('b', 2)], 'while a holds'],
    ['the fence of the last ownership', [a1, aEnds, a1], 'fence 1, but 1 was seen'],
    [
      'an old fence learned on re-entry',
      [acquire('a', 5), aEnds, acquire('b', null), acquire('b', 4)],
      'fence 4, but 5 was seen',
    ],
    ['one release too many', [a1, a1, aEnds, aEnds, aEnds], 'ends a lock that no one holds'],
  ])('refuses %s, the last of its operations', (_, operations, reason) => {
    expect(findImpossible(operations)).toEqual({
      index: operations.length - 1,
      reason: expect.stringContaining(reason),
    });
  });
});
