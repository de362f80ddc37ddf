import type { RedlockErrorCode } from '../../../lib/core/errors.ts';
import { coveredMs, intervalAt } from './intervals.ts';
import type { RunFacts } from './run-facts.ts';
import type { CampaignViolation, Finding } from './run-verdict.ts';

const CODES = {
  LOCK_BUSY: true,
  QUORUM_UNAVAILABLE: true,
  LOCK_LOST: true,
  STALE_TOKEN: true,
  FENCED_USAGE: true,
  REDLOCK_CONFIG: true,
  REDLOCK_CLOSED: true,
} satisfies Record<RedlockErrorCode, true>;

/**
 * Calls that were not granted end with a code of the package, and with one that the schedule allows. New servers may not
 * vote yet before the run is measured; who did not run for a while could not hear the servers in time; and for who has no
 * patience one slow answer of a busy machine is an outage.
 */
export function checkRefusals({
  calls,
  of,
  limits,
  phases,
  processes,
}: RunFacts): Finding<'refusals'> {
  const refusals: Record<string, number> = {};
  const violations: CampaignViolation[] = [];
  const begun = new Map(calls.map(({ asked }) => [asked.call, asked]));
  const isExcused = (process: string, at: number): boolean =>
    [process, 'campaign'].some((name) => {
      const { downtime = [] } = processes.get(name) ?? {};
      return coveredMs(downtime, at - limits.nodeTimeoutMs, at) > 0;
    });
  for (const { call, process, at, outcome } of of('answered')) {
    if (outcome === 'granted') continue;
    refusals[outcome] = (refusals[outcome] ?? 0) + 1;
    const isKnown = Object.hasOwn(CODES, outcome);
    if (isKnown && (limits.expectedRefusals?.has(outcome) ?? true)) continue;
    const asked = begun.get(call);
    const isMeasured = asked !== undefined && intervalAt(phases.measured, asked.at) !== undefined;
    const isPatient = asked !== undefined && asked.waitMs >= limits.patientMs;
    const isOutage = outcome === 'QUORUM_UNAVAILABLE';
    if (isOutage && !(isMeasured && isPatient && !isExcused(process, at))) continue;
    const key = asked?.keys.join();
    const why = isKnown ? 'does not belong to this schedule' : 'is no code of the package';
    const message = `'${key}': call ${call} of ${process} ended with ${outcome}, which ${why}`;
    violations.push({ rule: 'unexpected-refusal', key, process, at, message });
  }
  return { violations, measures: { refusals } };
}
