import type { Violation } from './check-history.ts';
import { describeGrant, ms, type Holding } from './holding.ts';

/**
 * Checks that at no instant two holders of a key believe to hold it, nobody receives a lock as held that has already ended,
 * nobody works outside its validity, and who joins a lock has its token. Expects the holdings in order of their grants.
 */
export function checkValidity(key: string, holdings: readonly Holding[]): Violation[] {
  return [
    ...overlaps(key, holdings),
    ...holdings.flatMap((holding) => [...ownTimes(key, holding)]),
  ];
}

/** Sweep over every holding against those before it that have not ended when it begins. */
function* overlaps(key: string, holdings: readonly Holding[]): Generator<Violation> {
  let running: Holding[] = [];
  for (const later of holdings) {
    if (later.endedAt <= later.granted.at) continue;
    running = running.filter((earlier) => earlier.endedAt > later.granted.at);
    for (const earlier of running) {
      const overlapMs = Math.min(earlier.endedAt, later.endedAt) - later.granted.at;
      yield {
        rule: 'overlapping-validity',
        key,
        at: later.granted.at,
        overlapMs,
        earlierHolder: earlier.granted.holder,
        laterHolder: later.granted.holder,
        message: `'${key}': two valid holders for ${ms(overlapMs)}: ${describeGrant(earlier.granted)}, believing until ${ms(earlier.endedAt)}, and ${describeGrant(later.granted)}`,
      };
    }
    running.push(later);
  }
}

function* ownTimes(key: string, holding: Holding): Generator<Violation> {
  const { granted, endedAt, extensions, steps } = holding;
  const letGoAt = Math.min(holding.released?.at ?? Infinity, holding.lost?.at ?? Infinity);
  if (
    granted.validUntil <= granted.startedAt ||
    (granted.held && granted.validUntil <= granted.at)
  ) {
    yield {
      rule: 'expired-grant',
      key,
      at: granted.at,
      message: `'${key}': already over when it was granted: ${describeGrant(granted)}`,
    };
  }
  const late = steps.find((step) => step.at >= Math.min(endedAt, letGoAt) && step.type !== 'left');
  if (late) {
    yield {
      rule: 'step-outside-validity',
      key,
      at: late.at,
      message: `'${key}': ${late.type === 'step' ? 'a step' : 'a re-entry'} at ${ms(late.at)} saw the lock as held, but it had ended at ${ms(endedAt)}: ${describeGrant(granted)}`,
    };
  }
  const changed = steps.find((step) => step.type === 'reentered' && step.token !== granted.token);
  if (changed) {
    yield {
      rule: 'changed-token',
      key,
      at: changed.at,
      message: `'${key}': a section that joined the lock at ${ms(changed.at)} has another token: ${describeGrant(granted)}`,
    };
  }
  const revival = extensions.find((extension) => extension.at > letGoAt);
  if (revival) {
    yield {
      rule: 'extended-after-end',
      key,
      at: revival.at,
      message: `'${key}': extended at ${ms(revival.at)} to ${ms(revival.validUntil)}, after its release or loss at ${ms(letGoAt)}: ${describeGrant(granted)}`,
    };
  }
}
