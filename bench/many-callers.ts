import type { Contestant } from './contestant.ts';
import { median, takeTurns } from './measure.ts';
import { RawLock } from './raw-lock.ts';
import { connectRedlock, connectWithLock } from './redlock-contestant.ts';
import type { Result } from './report.ts';

const CALLERS = 64;
const PLAN = { rounds: 12, warmUpRounds: 3 };
/** Of one contestant in one round. */
const LOCKS = 3_000;

/** Microseconds for each lock. */
interface Cost {
  readonly wall: number;
  /** Processor time of this process. */
  readonly cpu: number;
}

/** Many callers in one process, each with keys of its own: the rule in servers, and what few locks are made for. */
export async function manyCallers(
  urls: readonly string[],
  progressOf: (scenario: string) => (share: number) => void,
): Promise<Result[]> {
  const scenario = `${CALLERS} callers, N=${urls.length}`;
  const contestants = [
    await RawLock.connect('raw SET + compare-and-delete', urls),
    await RawLock.connect('the same again (noise)', urls),
    await connectRedlock('acquire + release', urls),
    await connectWithLock('withLock', urls),
  ];
  const costs = await takeTurns(contestants, PLAN, costOf, progressOf(scenario));
  await Promise.all(contestants.map((contestant) => contestant.close()));
  return (['wall', 'cpu'] as const).flatMap((kind) =>
    contestants.map(({ name }, index) => ({
      scenario: kind === 'wall' ? scenario : `${scenario}, client CPU`,
      contestant: name,
      value: median(costs[index]!.map((cost, round) => cost[kind] / costs[0]![round]![kind])),
      unit: '×' as const,
      micros: median(costs[index]!.map((cost) => cost[kind])),
    })),
  );
}

async function costOf(contestant: Contestant): Promise<Cost> {
  const cpu = process.cpuUsage();
  const startedAtMs = performance.now();
  let left = LOCKS;
  const caller = async (_: unknown, index: number): Promise<void> => {
    for (let cycle = 0; left > 0; cycle += 1) {
      left -= 1;
      await contestant.cycle(`bench:${contestant.name}:${index}:${cycle}`);
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, caller));
  const { user, system } = process.cpuUsage(cpu);
  return {
    wall: ((performance.now() - startedAtMs) * 1_000) / LOCKS,
    cpu: (user + system) / LOCKS,
  };
}
