import { describe, expect, it } from '@jest/globals';
import {
  fencedMutex,
  findImpossible,
  reentrantFencedMutex,
  type MutexOperation,
} from './fenced-mutex.ts';

const acquire = (client: string, fence: number | null): MutexOperation => ({
  type: 'acquire',
  client,
  fence,
});
const release = (client: string): MutexOperation => ({ type: 'release', client });
const expire = (client: string): MutexOperation => ({ type: 'expire', client });

describe('the fenced mutex', () => {
  it.each<[string, MutexOperation[]]>([
    [
      'fences that grow',
      [acquire('a', 1), release('a'), acquire('b', 5), expire('b'), acquire('a', 6)],
    ],
    [
      'an unknown fence between',
      [acquire('a', 3), release('a'), acquire('b', null), release('b'), acquire('a', 4)],
    ],
  ])('allows %s', (_, operations) => {
    expect(findImpossible(fencedMutex, operations)).toBeNull();
  });

  it.each<[string, MutexOperation[], number, string]>([
    ['two owners', [acquire('a', 1), acquire('b', 2)], 1, 'b acquires while a holds'],
    ['entering twice', [acquire('a', 1), acquire('a', 2)], 1, 'a acquires while a holds'],
    [
      'the same fence again',
      [acquire('a', 2), release('a'), acquire('b', 2)],
      2,
      'fence 2, but 2 was seen',
    ],
    [
      'a lower fence',
      [acquire('a', 2), release('a'), acquire('b', 1)],
      2,
      'fence 1, but 2 was seen',
    ],
    [
      'a lower fence behind an unknown one',
      [acquire('a', 3), release('a'), acquire('b', null), release('b'), acquire('c', 2)],
      4,
      'fence 2, but 3 was seen',
    ],
    ['a foreign release', [acquire('a', 1), release('b')], 1, 'b ends a lock of a'],
    ['a release of a free lock', [expire('b')], 0, 'b ends a lock of nobody'],
  ])('refuses %s', (_, operations, index, reason) => {
    expect(findImpossible(fencedMutex, operations)).toEqual({
      index,
      reason: expect.stringContaining(reason),
    });
  });
});

describe('the reentrant fenced mutex', () => {
  it.each<[string, MutexOperation[]]>([
    [
      'entering again with the same fence',
      [acquire('a', 1), acquire('a', 1), release('a'), release('a'), acquire('b', 2)],
    ],
    [
      'an expiry whatever the depth',
      [acquire('a', 1), acquire('a', 1), expire('a'), acquire('b', 2)],
    ],
    ['a fence learned on re-entry', [acquire('a', null), acquire('a', 3), acquire('a', 3)]],
  ])('allows %s', (_, operations) => {
    expect(findImpossible(reentrantFencedMutex, operations)).toBeNull();
  });

  it.each<[string, MutexOperation[], number, string]>([
    [
      'another fence on re-entry',
      [acquire('a', 1), acquire('a', 2)],
      1,
      'enters again with fence 2, having 1',
    ],
    [
      'another owner before the outer release',
      [acquire('a', 1), acquire('a', 1), release('a'), acquire('b', 2)],
      3,
      'while a holds',
    ],
    [
      'the fence of the last ownership',
      [acquire('a', 1), release('a'), acquire('a', 1)],
      2,
      'fence 1, but 1 was seen',
    ],
    [
      'an old fence learned on re-entry',
      [acquire('a', 5), release('a'), acquire('b', null), acquire('b', 4)],
      3,
      'fence 4, but 5 was seen',
    ],
    [
      'one release too many',
      [acquire('a', 1), acquire('a', 1), release('a'), release('a'), release('a')],
      4,
      'ends a lock of nobody',
    ],
  ])('refuses %s', (_, operations, index, reason) => {
    expect(findImpossible(reentrantFencedMutex, operations)).toEqual({
      index,
      reason: expect.stringContaining(reason),
    });
  });
});
