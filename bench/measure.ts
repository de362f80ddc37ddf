import type { Contestant } from './contestant.ts';

/** How long and how often. */
export interface RoundPlan {
  readonly rounds: number;
  readonly warmUpRounds: number;
  /** Cycles of one contestant in one round. */
  readonly cycles: number;
}

/** What one contestant took. */
export interface Measured {
  readonly name: string;
  /** Median over the rounds, microseconds per cycle. */
  readonly micros: number;
  /** Median over the rounds of the ratio to the first contestant in the same round. */
  readonly ratio: number;
  /** Median over the rounds of the difference to it, microseconds per cycle. */
  readonly difference: number;
}

/**
 * Takes something of the contestants one after the other in every round, starting with another one each time, so that
 * whatever slows the machine down meets all of them. Resolves with what was taken, by contestant and round.
 */
export async function takeTurns<Taken>(
  contestants: readonly Contestant[],
  { rounds, warmUpRounds }: Pick<RoundPlan, 'rounds' | 'warmUpRounds'>,
  take: (contestant: Contestant, round: number) => Promise<Taken>,
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
  const micros = await takeTurns(contestants, plan, time, progress);
  const [base] = micros;
  return contestants.map(({ name }, index) => ({
    name,
    micros: median(micros[index]!),
    ratio: median(micros[index]!.map((value, round) => value / base![round]!)),
    difference: median(micros[index]!.map((value, round) => value - base![round]!)),
  }));
}

async function timeCycles(contestant: Contestant, cycles: number, round: number): Promise<number> {
  const start = process.hrtime.bigint();
  for (let cycle = 0; cycle < cycles; cycle += 1) {
    await contestant.cycle(`bench:${contestant.name}:${round}:${cycle}`);
  }
  return Number(process.hrtime.bigint() - start) / 1_000 / cycles;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
