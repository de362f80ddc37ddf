import type { WorkerSettings } from './worker.ts';

/** What one play does, and what makes it green. */
export interface PermitPlay {
  readonly name: string;
  readonly what: string;
  readonly kind: WorkerSettings['kind'];
  /** The numbers that the processes name, in turn. */
  readonly permits: readonly number[];
  /** Some processes are killed with what they hold, and others started. */
  readonly kills: boolean;
  readonly fault: (outcome: Outcome, permits: readonly number[]) => string | undefined;
}

export interface Outcome {
  /** How many holders believed to have a permit at one moment, at most. */
  readonly most: number;
  readonly grants: number;
  /** Jain's index of the grants of the processes that ran all the time: 1 where all had as many. */
  readonly fairness: number;
  readonly kills: number;
  readonly refused: Record<string, number>;
  /** How often processes with each number said that others have another one. */
  readonly differ: Readonly<Record<string, readonly number[]>>;
}

const LEAST_FAIRNESS = 0.95;

const tooMany = ({ most }: Outcome, permits: readonly number[]): string | undefined =>
  most > Math.max(...permits) ? `${most} holders at once` : undefined;
const wrong = ({ fairness, refused }: Outcome): string | undefined => {
  if (Object.keys(refused).length > 0) return `calls got no permit: ${JSON.stringify(refused)}`;
  return fairness < LEAST_FAIRNESS ? `the index of fairness is ${fairness.toFixed(3)}` : undefined;
};

export const PLAYS: readonly PermitPlay[] = [
  {
    name: 'one number',
    what: 'five permits, while processes that hold one are killed',
    kind: 'ours',
    permits: [5],
    kills: true,
    fault: (outcome, permits) => tooMany(outcome, permits) ?? wrong(outcome),
  },
  {
    name: 'two numbers',
    what: 'three permits in every second process, five in the others: never more than five, and said once',
    kind: 'ours',
    permits: [5, 3],
    kills: false,
    fault: (outcome, permits) => {
      const { 3: small, 5: large } = outcome.differ;
      const isSaid = small!.every((count) => count === 1) && large!.every((count) => count === 0);
      return tooMany(outcome, permits) ?? (isSaid ? undefined : JSON.stringify(outcome.differ));
    },
  },
  {
    name: 'redis-semaphore',
    what: 'the same five permits by the times of the clients, whose clocks differ: more than five',
    kind: 'redis-semaphore',
    permits: [5],
    kills: false,
    fault: (outcome, permits) => (tooMany(outcome, permits) ? undefined : 'it was not noticed'),
  },
];
