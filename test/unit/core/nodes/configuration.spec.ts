import { describe, expect, it } from '@jest/globals';
import {
  configurationText,
  conflicting,
  mayMiss,
  parseConfiguration,
} from '../../../../lib/core/nodes/configuration.ts';

/** Tries every pair of quorums. */
function canMiss(one: readonly string[], other: readonly string[], quorums: readonly number[]) {
  const of = (nodes: readonly string[], quorum: number) =>
    Array.from({ length: 2 ** nodes.length }, (_, bits) =>
      nodes.filter((_node, at) => ((bits >> at) & 1) === 1),
    ).filter(({ length }) => length === quorum);
  return of(one, quorums[0]!).some((first) =>
    of(other, quorums[1]!).some((second) => !first.some((node) => second.includes(node))),
  );
}

const text = (nodes: string, quorum: number): string => configurationText(nodes.split(''), quorum);
const conflictsOf = (own: string, others: readonly string[], inCommon = 0): string[] =>
  conflicting(parseConfiguration(own), others, () => inCommon);

describe('two configurations', () => {
  it('may miss each other exactly where some pair of their quorums has no node in common', () => {
    const sets = ['a', 'b', 'abc', 'bcd', 'cde', 'abcd', 'abcde', 'def'];
    for (const one of sets) {
      for (const other of sets) {
        for (let first = 1; first <= one.length; first += 1) {
          for (let second = 1; second <= other.length; second += 1) {
            const configurations = [text(one, first), text(other, second)].map(parseConfiguration);
            const expected = canMiss(one.split(''), other.split(''), [first, second]);
            const shown = [one, first, other, second];
            expect([shown, mayMiss(configurations[0]!, configurations[1]!)]).toEqual([
              shown,
              expected,
            ]);
          }
        }
      }
    }
  });

  it('conflict also where the order of the nodes or the case of their names differs, and not with themselves', () => {
    expect(configurationText(['B:1', 'a:1'], 2)).toBe(configurationText(['a:1', 'b:1'], 2));
    expect(conflictsOf(text('abc', 2), [text('cde', 2)])).toEqual([text('cde', 2)]);
  });

  it('do not conflict where their nodes are the same under other names', () => {
    expect(conflictsOf('1 localhost:6379', ['1 redis:6379'], 1)).toEqual([]);
    expect(conflictsOf(text('abc', 2), [text('xyz', 2)], 3)).toEqual([]);
  });

  it('do not conflict at any step of a change of the nodes', () => {
    const change = [text('abc', 2), text('abcde', 4), text('abcde', 3)];
    const replaced = [text('abc', 2), text('abcd', 3), text('abd', 2)];
    for (const steps of [change, replaced])
      for (const [at, own] of steps.entries())
        expect(conflictsOf(own, steps.slice(0, at))).toEqual([]);
    // The steps conflict without the one between, and where the first one comes again.
    expect(conflictsOf(change[2]!, [change[0]!])).toEqual([change[0]]);
    expect(conflictsOf(change[2]!, [change[1]!, change[0]!])).toEqual([change[0]]);
  });
});
