import type { Plan } from './families/plan.ts';
import { simulate } from './simulation.ts';
import type { RunResult } from './simulation.ts';

/** The plan without these faults. The others keep their numbers in the trace of the whole plan only. */
export function withoutFaults(plan: Plan, numbers: ReadonlySet<number>): Plan {
  return { ...plan, faults: plan.faults.filter((_, number) => !numbers.has(number)) };
}

/** Leaves out every fault without which the same promise is still broken. Returns the numbers of those. */
export async function minimise(plan: Plan, result: RunResult): Promise<Set<number>> {
  const rules = new Set(result.violations.map(({ rule }) => rule));
  const left = new Set<number>();
  for (let again = true; again;) {
    again = false;
    for (const number of plan.faults.keys()) {
      if (left.has(number)) continue;
      const fewer = new Set(left).add(number);
      const { violations } = await simulate(withoutFaults(plan, fewer));
      if (!violations.some(({ rule }) => rules.has(rule))) continue;
      left.add(number);
      again = true;
    }
  }
  return left;
}

const MILESTONE = /\*\*\*|!!!|GRANTED|EXTENDED|LOST|RELEASES|crashes|does not run/;

/** The lines that tell the story of the first violation: faults, grants and ends, and all that its holders sent and received. */
export function story(result: RunResult): string[] {
  const [first] = result.violations;
  const holders = new Set(first?.message.match(/p\d+\/\d+#\d+/g));
  const untilMs = first?.atMs ?? Infinity;
  return result.trace.filter((line) => {
    if (Number.parseFloat(line) > untilMs + 5) return false;
    return MILESTONE.test(line) || [...holders].some((holder) => line.includes(`${holder} `));
  });
}
