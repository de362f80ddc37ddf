import { setImmediate as endOfTick } from 'node:timers/promises';
import type { Contestant } from './contestant.ts';

/** Number and length of the rounds. */
export interface RoundPlan {
  readonly rounds: number;
  readonly warmUpRounds: number;
  /** Cycles of one contestant in one round. */
  readonly cycles: number;
}

/** Measurement of one contestant; times in microseconds per cycle. */
export interface Measured {
  readonly name: string;
  /** Median over all cycles. */
  readonly micros: number;
  readonly quartiles: readonly [number, number];
  readonly p99: number;
  /** Median over the rounds of the ratio to the first contestant in the same round, of the medians in each. */
  readonly ratio: number;
  /** Median over the rounds of the difference to it, of the means: a collection of garbage belongs to what makes the garbage. */
  readonly difference: number;
  /** Processor time of this process: median over the rounds. */
  readonly clientCpu: number;
}

/** Times of it that are shown beside a ratio. */
export function timesOf({ micros, quartiles, p99, clientCpu }: Measured) {
  return { micros, quartiles, p99, clientCpu };
}

interface Round {
  readonly times: readonly number[];
  readonly median: number;
  readonly mean: number;
  readonly cpu: number;
}

/**
 * Takes something of the contestants one after the other in every round, starting with another one each time, so that
 * whatever slows the machine down meets all of them. Resolves with what was taken, by contestant and round.
 */
export async function takeTurns<Taken, Taking extends Contestant>(
  contestants: readonly Taking[],
  { rounds, warmUpRounds }: Pick<RoundPlan, 'rounds' | 'warmUpRounds'>,
  take: (contestant: Taking, round: number) => Promise<Taken>,
  progress: (share: number) => void,
): Promise<Taken[][]> {
  const taken = contestants.map((): Taken[] => []);
  for (let round = -warmUpRounds; round < rounds; round += 1) {
    for (let turn = 0; turn < contestants.length; turn += 1) {
      const index = (turn + round + warmUpRounds) % contestants.length;
      const value = await take(contestants[index]!, round);
      if (round >= 0) taken[index]!.push(value);
    }
    progress((round + 1 + warmUpRounds) / (rounds + warmUpRounds));
  }
  return taken;
}

/** Ratios are taken within a round; the first contestant is the measure. */
export async function measure(
  contestants: readonly Contestant[],
  plan: RoundPlan,
  progress: (share: number) => void,
): Promise<Measured[]> {
  const time = (contestant: Contestant, round: number) =>
    timeCycles(contestant, plan.cycles, round);
  const taken = await takeTurns(contestants, plan, time, progress);
  const base = taken[0]!;
  return contestants.map(({ name }, index) => {
    const rounds = taken[index]!;
    const times = rounds.flatMap((round) => round.times);
    return {
      name,
      micros: median(times),
      quartiles: [quantile(times, 0.25), quantile(times, 0.75)],
      p99: quantile(times, 0.99),
      ratio: median(rounds.map((each, round) => each.median / base[round]!.median)),
      difference: median(rounds.map(({ mean }, round) => mean - base[round]!.mean)),
      clientCpu: median(rounds.map(({ cpu }) => cpu)),
    };
  });
}

async function timeCycles(contestant: Contestant, cycles: number, round: number): Promise<Round> {
  const times: number[] = [];
  const cpu = process.cpuUsage();
  const startedAtMs = performance.now();
  let beforeMs = startedAtMs;
  for (let cycle = 0; cycle < cycles; cycle += 1) {
    await contestant.cycle(keyOf(contestant, `${round}:${cycle}`));
    const nowMs = performance.now();
    times.push((nowMs - beforeMs) * 1_000);
    beforeMs = nowMs;
  }
  const { user, system } = process.cpuUsage(cpu);
  // A release may still wait for the next call: what is computed now would hold it up.
  await endOfTick();
  const mean = ((beforeMs - startedAtMs) * 1_000) / cycles;
  return { times, median: median(times), mean, cpu: (user + system) / cycles };
}

/** A key of its own in each contestant, of the same length in all: bytes are compared, too. */
export function keyOf({ name }: Contestant, rest: string): string {
  return `bench:${name.padEnd(24, '.')}:${rest}`;
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

/** The value that a share of the values is not above; between two values, in proportion. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (sorted.length - 1) * share;
  const below = sorted[Math.floor(at)]!;
  return below + (sorted[Math.ceil(at)]! - below) * (at - Math.floor(at));
}
