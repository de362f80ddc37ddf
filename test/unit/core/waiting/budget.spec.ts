import { expect, it } from '@jest/globals';
import { budgetOf } from '../../../../lib/core/waiting/budget.ts';

it.each([
  // Half of its time is left for a try,
  { waitMs: 2_000, nodeTimeoutMs: 200, roundTripMs: 2, tryBy: 1_000, waitUntil: 2_000, end: 2_000 },
  // or four round trips, where these are longer.
  { waitMs: 2_000, nodeTimeoutMs: 200, roundTripMs: 300, tryBy: 800, waitUntil: 2_000, end: 2_000 },
  // Without an answer, it has a node timeout to get one.
  { waitMs: 0, nodeTimeoutMs: 200, roundTripMs: 2, tryBy: 100, waitUntil: 0, end: 200 },
  // It tries at once where no time is left for anything else.
  { waitMs: 0, nodeTimeoutMs: 200, roundTripMs: 60, tryBy: -40, waitUntil: 0, end: 200 },
])(
  'a caller with $waitMs ms, $roundTripMs ms away, tries by $tryBy, and ends at $waitUntil or $end',
  ({ waitMs, nodeTimeoutMs, roundTripMs, tryBy, waitUntil, end }) => {
    expect(budgetOf(5_000, { waitMs, nodeTimeoutMs }, roundTripMs)).toEqual({
      tryByMs: 5_000 + tryBy,
      waitUntilMs: 5_000 + waitUntil,
      endsAtMs: 5_000 + end,
    });
  },
);
