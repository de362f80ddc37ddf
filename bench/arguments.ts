import { parseArgs } from 'node:util';

/** Parts of the measurement, as `--only` names them. */
export const SCENARIOS = [
  'N=1',
  'N=5',
  'callers',
  'frozen',
  'heap',
  'abort',
  'used-once',
  'decorator',
  'fence',
] as const;

export type Scenario = (typeof SCENARIOS)[number];

export const USAGE = `Usage: npm run bench -- [--check] [--only <text>]

Measures in the same run, interleaved, by medians: ratios against raw ioredis, for one caller and for 64 with keys of their
own, for the fence against plain PostgreSQL, and @Fenced beside locks.withLock; the heap of held locks, the CPU time of
100,000 waiters that are aborted, and what 100,000 keys leave behind that were used once.

  --check         exit with 1 when a bar is missed
  --only <text>   only the scenarios whose name contains the text: ${SCENARIOS.join(', ')}
  --help          show this text

To profile one: node --cpu-prof bench/dist/bench/main.js --only N=5`;

export interface Arguments {
  readonly check: boolean;
  readonly help: boolean;
  readonly scenarios: readonly Scenario[];
}

/** @throws {Error} that says in one line what is wrong with the words */
export function readArguments(words: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: [...words],
    options: {
      check: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      help: { type: 'boolean', default: false },
    },
  });
  const { check, help, only } = values;
  const scenarios = SCENARIOS.filter((name) => name.includes(only));
  if (scenarios.length === 0)
    throw new Error(`--only: no scenario of ${SCENARIOS.join(', ')} contains '${only}'`);
  return { check, help, scenarios };
}
