import { describeGrant, ms, type Holding } from '../../../test/history/holding.ts';
import type { AccessEvent } from '../campaign-event.ts';
import type { RunFacts } from './facts.ts';
import type { CampaignViolation, Finding } from './verdict.ts';

interface RecordState {
  /** The access with the highest token so far. */
  newest: AccessEvent | undefined;
  /** The last write, or the read that showed what stood there at first. */
  last: AccessEvent | undefined;
}

/**
 * The records, access by access in the order in which the resource did them. What the fenced view must never do, the
 * unfenced one is expected to do under faults: there it is counted. Every access belongs to a grant, and nobody is refused who
 * is inside its validity.
 */
export function checkRecords({
  of,
  holdings,
  limits,
}: RunFacts): Finding<'unfencedStaleWrites' | 'fencedRefusals'> {
  const byHolder = new Map(holdings.map((holding) => [holding.granted.holder, holding]));
  const records = new Map<string, RecordState>();
  const violations: CampaignViolation[] = [];
  const measures = { unfencedStaleWrites: 0, fencedRefusals: 0 };
  const broken = (rule: CampaignViolation['rule'], { key, at }: AccessEvent, text: string) =>
    violations.push({ rule, key, at, message: `'${key}': ${text}` });
  for (const access of of('access')) {
    const { view, key, operation, accepted, at } = access;
    const what = describeAccess(access);
    const holding = byHolder.get(access.holder);
    if (!holding || !belongsTo(access, holding))
      broken('access-without-grant', access, `the ${what} belongs to no grant`);
    else if (!accepted && at < holding.endedAt) {
      const mayBeBeside = limits.overlapMs > 0 && hasNewerBeside(key, holding, holdings);
      const text = `the ${what} was refused inside the validity, which ended at ${ms(holding.endedAt)}: ${describeGrant(holding.granted)}`;
      if (!mayBeBeside) broken('legitimate-holder-refused', access, text);
    }
    if (!accepted) {
      measures.fencedRefusals += 1;
      continue;
    }
    const name = `${view} ${key}`;
    const record = records.get(name) ?? { newest: undefined, last: undefined };
    records.set(name, record);
    const { newest, last } = record;
    const isStale = newest !== undefined && access.token < newest.token;
    // A write adds one to the number before it; a read shows that number.
    const isBroken =
      last !== undefined && access.value !== last.value + (operation === 'write' ? 1 : 0);
    if (view === 'unfenced')
      measures.unfencedStaleWrites += Number(isStale && operation === 'write');
    else if (isStale)
      broken('stale-write-accepted', access, `the ${what} after the ${describeAccess(newest)}`);
    if (view === 'fenced' && isBroken)
      broken('lost-update', access, `the ${what} does not follow from the ${describeAccess(last)}`);
    if (!isStale) record.newest = access;
    if (operation === 'write' || isBroken || last === undefined) record.last = access;
  }
  return { violations, measures };
}

function describeAccess({ operation, value, token, holder, at }: AccessEvent): string {
  return `${operation} of ${value} with token ${token} (holder ${holder}) at ${ms(at)}`;
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
