import { parseArgs } from 'node:util';

/** Parts of the measurement, as `--only` names them; those that are in every run. */
export const QUICK_SCENARIOS = ['N=1', 'N=5', 'sections', 'callers', 'contention'] as const;

export const SCENARIOS = [
  ...QUICK_SCENARIOS,
  'clients',
  'one-core',
  'fairness',
  'frozen',
  'slow',
  'held',
  'heap',
  'start-up',
  'abort',
  'used-once',
  'decorator',
  'fence',
  'postgres',
] as const;

export type Scenario = (typeof SCENARIOS)[number];

export const USAGE = `Usage: npm run bench -- [--full] [--check] [--only <text>] [--json <file>] [--charts <folder>]

Measures raw ioredis, this package and, where they are installed, other lock libraries on servers of its own, in turns within
the same run. Ratios are those to raw ioredis in the same round: one SET NX PX and one compare-and-delete on each server,
resolved at a quorum. Without options: two minutes, of one caller, 64 callers, and 128 callers for one key.

  --full             everything, in half an hour: client and server on one core, up to 4096 callers on one to seven servers, up
                     to 1000 callers for one key in one and four processes, who of 16 gets how much, frozen and slow servers,
                     10,000 held locks, heap, start, PostgreSQL
  --only <text>      only the scenarios whose name contains the text: ${SCENARIOS.join(', ')}
  --check            exit with 1 when a bar is missed
  --json <file>      writes all figures
  --charts <folder>  draws the figures as SVG
  --help             show this text

Other libraries: npm ci --prefix bench/peers
To profile one scenario: node --cpu-prof bench/dist/bench/main.js --only N=5`;

export interface Arguments {
  readonly check: boolean;
  readonly help: boolean;
  readonly full: boolean;
  readonly scenarios: readonly Scenario[];
  readonly json: string | undefined;
  readonly charts: string | undefined;
}

/** @throws {Error} that says in one line what is wrong with the words */
export function readArguments(words: readonly string[]): Arguments {
  const { values } = parseArgs({
    args: [...words],
    options: {
      check: { type: 'boolean', default: false },
      full: { type: 'boolean', default: false },
      only: { type: 'string' },
      json: { type: 'string' },
      charts: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  const { check, full, help, only, json, charts } = values;
  const all = full || only !== undefined ? SCENARIOS : QUICK_SCENARIOS;
  const scenarios = all.filter((name) => name.includes(only ?? ''));
  if (scenarios.length === 0)
    throw new Error(`--only: no scenario of ${SCENARIOS.join(', ')} contains '${only}'`);
  return { check, full, help, scenarios, json, charts };
}
