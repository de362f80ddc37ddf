import type { Family } from '../families/plan.ts';
import type { Violation } from '../checks/violations.ts';

/** One exact change to one file of the code under test; the text must be there exactly once. */
export interface Edit {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** The code broken on purpose. A mutant that the simulation does not catch is a hole in its checks. */
export interface Mutant {
  readonly name: string;
  /** What is broken. */
  readonly claim: string;
  readonly edits: readonly Edit[];
  /** What it must be caught by; at least one of them. */
  readonly caughtBy: readonly Violation['rule'][];
  /** Runs that can show it, where others can't. */
  readonly family?: Family;
}

/** Which runs show it, where most do not. */
const FAMILY_OF: Readonly<Record<string, Family>> = {
  'floor-not-restored': 'repair',
  'no-guard': 'amnesia',
  'no-drift': 'boundary',
  'no-rounding': 'boundary',
  'no-elapsed-check': 'boundary',
  'extension-counts-from-answers': 'boundary',
  'guard-too-short': 'boundary',
  'guard-one-tick-short': 'boundary',
  'guard-does-not-see-restarts': 'boundary',
  'floor-one-tick-low': 'boundary',
  'votes-summed-over-ballots': 'reballots',
  'late-votes-count-for-newer-ballot': 'reballots',
  'no-floor-after-restart': 'amnesia',
  'no-clock-floor': 'calendar',
  'extend-without-floor-check': 'early',
  'no-early-loss': 'early',
};

export const OVERLAP = ['overlapping-validity', 'fenced-mutex'] as const;
export const TOKENS = ['duplicate-token', 'decreasing-token'] as const;

export function mutant(
  name: string,
  claim: string,
  caughtBy: readonly Violation['rule'][],
  ...edits: readonly (readonly [file: string, find: string, replace: string])[]
): Mutant {
  return {
    name,
    claim,
    caughtBy,
    ...(FAMILY_OF[name] && { family: FAMILY_OF[name] }),
    edits: edits.map(([file, find, replace]) => ({ file, find, replace })),
  };
}
