import type { RunFacts } from './run-facts.ts';
import type { Finding } from './run-verdict.ts';

/** What processes and the campaign wrote down because it must never happen. */
export function checkProblems({ of }: RunFacts): Finding {
  return {
    violations: of('problem').map(({ kind, process, at, message }) => ({
      rule: kind,
      process,
      at,
      message: `${process}: ${message}`,
    })),
    measures: {},
  };
}
