import type { Violation } from './check-history.ts';
import { describeGrant, type Holding } from './holding.ts';

/**
 * Checks that no token of a key is given twice, and that a grant whose attempt began after another grant was complete has
 * the larger token. Neither rests on clocks of servers, so there is no tolerance. Expects the holdings in order of their
 * grants.
 */
export function checkTokenOrder(key: string, holdings: readonly Holding[]): Violation[] {
  return [...duplicates(key, holdings), ...decreases(key, holdings)];
}

function* duplicates(key: string, holdings: readonly Holding[]): Generator<Violation> {
  const owners = new Map<number, Holding>();
  for (const holding of holdings) {
    const { token } = holding.granted;
    const owner = owners.get(token);
    if (!owner) {
      owners.set(token, holding);
      continue;
    }
    yield {
      rule: 'duplicate-token',
      key,
      at: holding.granted.at,
      message: `'${key}': one token for two grants: ${describeGrant(owner.granted)} and ${describeGrant(holding.granted)}`,
    };
  }
}

/** Sweep over attempts in order of their start against the largest token of the grants complete by then. */
function* decreases(key: string, holdings: readonly Holding[]): Generator<Violation> {
  const starts = [...holdings].sort((a, b) => a.granted.startedAt - b.granted.startedAt);
  let completed = 0;
  let highest: Holding | undefined;
  for (const later of starts) {
    for (; completed < holdings.length; completed += 1) {
      const earlier = holdings[completed]!;
      if (earlier.granted.at >= later.granted.startedAt) break;
      if (!highest || earlier.granted.token > highest.granted.token) highest = earlier;
    }
    if (highest && later.granted.token < highest.granted.token) {
      yield {
        rule: 'decreasing-token',
        key,
        at: later.granted.at,
        message: `'${key}': the token went down: ${describeGrant(later.granted)} began after the grant of ${describeGrant(highest.granted)}`,
      };
    }
  }
}
