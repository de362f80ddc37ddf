import { describe, expect, it } from '@jest/globals';
import { FencedUsageError } from '../../../../lib/core/errors.ts';
import { lockNames, markerName } from '../../../../lib/core/nodes/node-names.ts';
import { normalizeKeys } from '../../../../lib/core/options/lock-keys.ts';

describe('normalizeKeys', () => {
  it('asks for a set in one way: sorted, each key once', () => {
    expect(normalizeKeys(['b', 'a', 'b'])).toEqual(['a', 'b']);
    expect(normalizeKeys('a')).toEqual(['a']);
  });

  it('leaves the array of the caller alone', () => {
    const keys = ['b', 'a'];
    normalizeKeys(keys);
    expect(keys).toEqual(['b', 'a']);
  });

  it.each<[string, unknown]>([
    ['no key', []],
    ['an empty key', ''],
    ['an empty key in a set', ['a', '']],
    ['undefined', undefined],
    ['undefined in a set', ['a', undefined]],
    ['null', null],
    ['a number', 5],
    ['an object', { id: 1 }],
    ['a reserved key', '#marker'],
    ['too many keys', Array.from({ length: 1_001 }, (_, index) => `key${index}`)],
    ['a key that is too long', 'k'.repeat(1_025)],
    ['half of a surrogate pair', 'a\uD800'],
  ])('refuses %s and says that nothing was locked', (_, keys) => {
    expect(() => normalizeKeys(keys as string)).toThrow(FencedUsageError);
    expect(() => normalizeKeys(keys as string)).toThrow(/Nothing was locked\.$/);
  });

  it('takes what is unusual but clear', () => {
    for (const key of ['seat:12A', ' ', 'ä😀', '{tag}x', 'a#b', 'k'.repeat(1_024)])
      expect(normalizeKeys(key)).toEqual([key]);
  });

  it('gives keys that nobody can change later', () => {
    expect(Object.isFrozen(normalizeKeys(['b', 'a']))).toBe(true);
    expect(Object.isFrozen(normalizeKeys('a'))).toBe(true);
  });
});

describe('lockNames', () => {
  it('pairs each lock with its fence, behind the marker', () => {
    expect(lockNames('lock:', ['a', 'b'])).toEqual({
      locks: ['lock:a', 'lock:b'],
      pairs: ['lock:a', 'lock:#floor:a', 'lock:b', 'lock:#floor:b'],
      withMarker: ['lock:#marker', 'lock:a', 'lock:#floor:a', 'lock:b', 'lock:#floor:b'],
    });
    expect(markerName('x:')).toBe('x:#marker');
  });

  it('no allowed key has the name of a fence or of the marker', () => {
    const reserved = [markerName('lock:'), ...lockNames('lock:', ['a', 'fence:a']).pairs].filter(
      (name) => name.startsWith('lock:#'),
    );
    for (const name of reserved) {
      expect(() => normalizeKeys(name.slice('lock:'.length))).toThrow(FencedUsageError);
    }
  });
});
