import { ms } from '../../history/holding.ts';
import type { AccessEvent } from '../campaign-event.ts';
import type { RunFacts } from './run-facts.ts';
import type { CampaignViolation, Finding } from './run-verdict.ts';

interface RecordState {
  /** The access with the highest token so far. */
  newest: AccessEvent | undefined;
  /** The last write, or the read that showed what stood there at first. */
  last: AccessEvent | undefined;
}

type Measure = 'unfencedStaleWrites' | 'fencedRefusals';

/**
 * The records, access by access in the order in which the resource did them. What the fenced view must never do, the
 * unfenced one is expected to do under faults: there it is counted.
 */
export function checkRecords({ of }: RunFacts): Finding<Measure> {
  const records = {
    fenced: new Map<string, RecordState>(),
    unfenced: new Map<string, RecordState>(),
  };
  const violations: CampaignViolation[] = [];
  const measures = { unfencedStaleWrites: 0, fencedRefusals: 0 };
  for (const access of of('access')) {
    if (!access.accepted) {
      measures.fencedRefusals += 1;
      continue;
    }
    const record = records[access.view].get(access.key) ?? { newest: undefined, last: undefined };
    records[access.view].set(access.key, record);
    const isStale = record.newest !== undefined && access.token < record.newest.token;
    const isBroken = breaksChain(record.last, access);
    if (access.view === 'fenced') {
      if (isStale) violations.push(staleWrite(access, record.newest!));
      if (isBroken) violations.push(lostUpdate(access, record.last!));
    } else if (access.operation === 'write' && isStale) measures.unfencedStaleWrites += 1;
    if (!isStale) record.newest = access;
    if (access.operation === 'write' || isBroken) record.last = access;
    else record.last ??= access;
  }
  return { violations, measures };
}

/** A write adds one to the number before it; a read shows that number. */
function breaksChain(last: AccessEvent | undefined, { operation, value }: AccessEvent): boolean {
  return last !== undefined && value !== last.value + (operation === 'write' ? 1 : 0);
}

function staleWrite(access: AccessEvent, newer: AccessEvent): CampaignViolation {
  return {
    rule: 'stale-write-accepted',
    key: access.key,
    at: access.at,
    message: `'${access.key}': the fenced view took the ${describeAccess(access)} after the ${describeAccess(newer)}`,
  };
}

function lostUpdate(access: AccessEvent, last: AccessEvent): CampaignViolation {
  return {
    rule: 'lost-update',
    key: access.key,
    at: access.at,
    message: `'${access.key}': the number of the ${describeAccess(access)} does not follow from the ${describeAccess(last)}`,
  };
}

/** Describes an access for people. */
export function describeAccess({ operation, value, token, holder, at }: AccessEvent): string {
  return `${operation} of ${value} with token ${token} (holder ${holder}) at ${ms(at)}`;
}
