import { expect, it } from '@jest/globals';
import { LockLostError, QuorumUnavailableError, StaleTokenError } from '../../lib/core/errors.ts';
import { reported } from '../src/stage/worker-reports.ts';
import { timelineLine } from '../src/view/timeline-line.ts';

/** `@Fenced` puts the method in front of the message; the line has room for what happened only. */
it.each([
  [new StaleTokenError('seat:D1', '41', '42'), "STALE_TOKEN: Stale fencing token 41 for 'seat:D1'"],
  [new LockLostError(['seat:D2'], 'expired', 41), 'Lock "seat:D2" (token 41) was lost'],
  [new QuorumUnavailableError(['seat:E1'], 999, 2, 3, []), 'No quorum for lock "seat:E1" after'],
])('a failed booking says what happened, not which method failed', (error, text) => {
  error.message = `SeatsService.book: ${error.message}`;
  const booking = { worker: 1, seatId: 'D1', customer: 'ana', outcome: 'failed' } as const;
  const result = { ...booking, error: reported(error) };
  const line = timelineLine({ type: 'booking-ended', result }, true, (_, plain) => plain);
  expect(line).toContain(text);
  expect(line).not.toContain('SeatsService');
});
