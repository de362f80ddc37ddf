import { describeGrant, ms } from '../../history/holding.ts';
import type { RunFacts } from './run-facts.ts';
import type { Finding } from './run-verdict.ts';

/**
 * Where a majority has forgotten everything, nobody is granted for the guard: what was forgotten may still be held. Grants
 * whose attempt began before that may rest on votes of servers that then forgot.
 *
 * The guard of a server begins when it is joined again. So the mark has to stand before that: when all of them are down, and
 * not when they are back.
 */
export function checkGuards({ of, holdings }: RunFacts): Finding {
  const guards = of('mark').filter((mark) => mark.mark === 'majority-forgot');
  return {
    violations: guards.flatMap(({ at, guardMs }) =>
      holdings
        .filter(({ granted }) => granted.startedAt > at && granted.at < at + guardMs)
        .map(({ granted }) => ({
          rule: 'granted-during-guard' as const,
          key: granted.keys.join(),
          at: granted.at,
          message: `'${granted.keys.join()}': a majority forgot everything by ${ms(at)} and may not vote up to ${ms(at + guardMs)}, but there was a grant: ${describeGrant(granted)}`,
        })),
    ),
    measures: {},
  };
}
