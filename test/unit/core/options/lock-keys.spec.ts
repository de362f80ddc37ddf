import { describe, expect, it } from '@jest/globals';
import { FencedUsageError } from '../../../../lib/core/errors.ts';
import { NodeNames } from '../../../../lib/core/nodes/node-names.ts';
import { normalizeKeys } from '../../../../lib/core/options/lock-keys.ts';

describe('normalizeKeys', () => {
  it('asks for a set in one way: sorted, each key once, in an array that no one can change', () => {
    const keys = ['b', 'a', 'b'];
    expect([normalizeKeys(keys), normalizeKeys('a'), keys[0]]).toEqual([['a', 'b'], ['a'], 'b']);
    for (const given of [keys, 'a']) expect(Object.isFrozen(normalizeKeys(given))).toBe(true);
  });

  const wrong = [
    [],
    '',
    ['a', ''],
    undefined,
    ['a', undefined],
    Object.assign([], { 1: 'a' }),
    null,
    5,
    { id: 1 },
    'a\uD800',
  ];
  const long = ['k'.repeat(1_025), Array.from({ length: 1_001 }, (_, index) => `key${index}`)];
  /** Names of our own, also those of a longer prefix. */
  const own = [
    '#',
    '#marker',
    'b:#marker',
    'b:#marker:gate',
    'b#marker',
    'b:#probe',
    'b:#floor:x',
    'b#floor:',
  ];

  it.each<unknown>([...wrong, ...long, ...own, ['a', '#']])(
    'refuses %p and says that nothing was locked',
    (keys) => {
      expect(() => normalizeKeys(keys as string)).toThrow(FencedUsageError);
      expect(() => normalizeKeys(keys as string)).toThrow(/Nothing was locked\.$/);
    },
  );

  it('takes what is unusual but clear', () => {
    const unusual = ['seat:12A', ' ', 'ä😀', '{tag}x', 'a#b', 'k'.repeat(1_024), 'b:#markers'];
    for (const key of [...unusual, 'a:#general', 'issue #floor', 'marker', 'floor:x'])
      expect(normalizeKeys(key)).toEqual([key]);
  });
});

describe('NodeNames', () => {
  it('pairs each lock with its floor', () => {
    const { marker, pairs, locks } = new NodeNames('lock:', ['a', 'b']);
    expect([marker, locks]).toEqual(['lock:#marker', ['lock:a', 'lock:b']]);
    expect(pairs).toEqual(['lock:a', 'lock:#floor:a', 'lock:b', 'lock:#floor:b']);
    expect(new NodeNames('lock:', ['a']).pairs).toEqual(['lock:a', 'lock:#floor:a']);
  });

  it.each(['lock:', 'lock:b:', 'lock:b:c', 'lock:x'])(
    'makes no name that a lock of prefix `lock:` could have, under the prefix `%s`',
    (keyPrefix) => {
      const { pairs } = new NodeNames(keyPrefix, ['a', 'floor:a', 'x']);
      const reserved = [new NodeNames(keyPrefix, []).marker, ...pairs].filter((name) =>
        name.includes('#'),
      );
      for (const name of reserved) expect(refusal(name.slice('lock:'.length))).toBeDefined();
      expect(reserved).toHaveLength(4);
    },
  );
});

function refusal(key: string): unknown {
  try {
    normalizeKeys(key);
  } catch (error) {
    return error;
  }
  return undefined;
}
