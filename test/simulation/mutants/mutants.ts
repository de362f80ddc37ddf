import { readFileSync } from 'node:fs';
import type { Edit } from '../../support/program.ts';
import type { Violation } from '../checks/violations.ts';
import { DIRECTED_FAMILIES, FAMILIES } from '../families/draw-plan.ts';
import type { Family } from '../families/plan.ts';

/** The code broken on purpose. */
export interface Mutant {
  readonly name: string;
  /** Statement of what is broken. */
  readonly claim: string;
  readonly edits: readonly Edit[];
  /** Rules by at least one of which it must be caught. */
  readonly caughtBy: readonly Violation['rule'][];
  /** Runs that can show it, where others can't. */
  readonly family?: Family;
  /** The first of the seeds that are tried. */
  readonly from: number;
}

const GROUPS: Readonly<Record<string, readonly Violation['rule'][]>> = {
  overlap: ['overlapping-validity'],
  tokens: ['duplicate-token', 'decreasing-token'],
};

/**
 * A mutant that the simulation does not catch is a hole in its checks. One block each: its name, the family of runs that
 * show it, the first seed, and the rules that must catch it, one of them; what is broken; and for each place the file, what
 * stands there exactly once, and what stands there instead.
 */
export const MUTANTS: readonly Mutant[] = ['voting', 'waiting', 'nodes', 'redis'].flatMap((name) =>
  readFileSync(new URL(`${name}.txt`, import.meta.url), 'utf8')
    .split(/\n\n+/)
    .filter((block) => !block.startsWith('#'))
    .map(readMutant),
);

function readMutant(block: string): Mutant {
  const [title, claim] = block.split('\n') as [string, string];
  const [name, only, from, rules] = title.split(' ') as [string, string, string, string];
  const family = [...FAMILIES, ...DIRECTED_FAMILIES].find((each) => each === only);
  const edits = block.matchAll(/^([^-+\n].*)\n((?:- .*\n)+)((?:\+.*(?:\n|$))+)/gm);
  return {
    name,
    claim,
    edits: [...edits].map(([, file, find, replace]) => ({
      file: file!,
      find: textOf(find!),
      replace: textOf(replace!),
    })),
    caughtBy: rules.split(',').flatMap((rule) => GROUPS[rule] ?? [rule as Violation['rule']]),
    ...(family && { family }),
    from: Number(from),
  };
}

/** Text without the signs before the lines. */
function textOf(lines: string): string {
  return lines.trimEnd().replace(/^. ?/gm, '');
}
