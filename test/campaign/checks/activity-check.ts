import { intervalAt } from './intervals.ts';
import type { EventOf, RunFacts } from './run-facts.ts';
import type { Finding } from './run-verdict.ts';

/** A run in which nothing happened keeps every promise: so something must have happened. */
export function checkActivity(facts: RunFacts): Finding<'grants' | 'extensions' | 'losses'> {
  const { holdings, of, phases } = facts;
  const missing: string[] = [];
  if (phases.healthy.length === 0) missing.push('time that was measured with a healthy quorum');
  else if (!holdings.some(({ granted }) => intervalAt(phases.healthy, granted.at)))
    missing.push('grant while it was measured and a quorum was healthy');
  const isFencedWrite = ({ view, operation, accepted }: EventOf<'access'>): boolean =>
    view === 'fenced' && operation === 'write' && accepted;
  if (!of('access').some(isFencedWrite)) missing.push('write that the fenced view accepted');
  return {
    violations: missing.map((what) => ({
      rule: 'nothing-happened',
      message: `There was no ${what}, so the run proves nothing`,
    })),
    measures: {
      grants: holdings.length,
      extensions: of('extended').length,
      losses: of('lost').length,
    },
  };
}
