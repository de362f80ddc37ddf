import { describeGrant, ms, type Holding } from '../../history/holding.ts';
import type { AccessEvent } from '../campaign-event.ts';
import { describeAccess } from './record-check.ts';
import type { RunFacts } from './run-facts.ts';
import type { CampaignViolation, Finding } from './run-verdict.ts';

/** Checks that every access belongs to a grant, and that nobody is refused who is inside its validity. */
export function checkAccesses({ of, holdings, limits }: RunFacts): Finding {
  const byHolder = new Map(holdings.map((holding) => [holding.granted.holder, holding]));
  const violations: CampaignViolation[] = [];
  for (const access of of('access')) {
    const { key, at, accepted } = access;
    const holding = byHolder.get(access.holder);
    if (!holding || !belongsTo(access, holding)) {
      const message = `'${key}': the ${describeAccess(access)} belongs to no grant${holding ? ` but that of ${describeGrant(holding.granted)}` : ''}`;
      violations.push({ rule: 'access-without-grant', key, at, message });
    } else if (
      !accepted &&
      at < holding.endedAt &&
      !(limits.overlapMs > 0 && hasNewerBeside(key, holding, holdings))
    ) {
      const message = `'${key}': the ${describeAccess(access)} was refused inside the validity, which ended at ${ms(holding.endedAt)}: ${describeGrant(holding.granted)}`;
      violations.push({ rule: 'legitimate-holder-refused', key, at, message });
    }
  }
  return { violations, measures: {} };
}

function belongsTo({ key, token, at }: AccessEvent, { granted }: Holding): boolean {
  return granted.token === token && granted.at <= at && granted.keys.includes(key);
}

/**
 * When holders may overlap, the one with the larger token wins, and the other is refused inside its validity. The tokens
 * have no order as long as the attempts overlap, so their whole time counts.
 */
function hasNewerBeside(
  key: string,
  { granted, endedAt }: Holding,
  all: readonly Holding[],
): boolean {
  return all.some(
    (other) =>
      other.granted.token > granted.token &&
      other.granted.startedAt < endedAt &&
      other.endedAt > granted.startedAt &&
      other.granted.keys.includes(key),
  );
}
