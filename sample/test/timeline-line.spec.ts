import { expect, it } from '@jest/globals';
import {
  LockLostError,
  QuorumUnavailableError,
  StaleTokenError,
  type RedlockError,
} from '../../lib/core/errors.ts';
import type { StageEvent } from '../src/stage/stage-event.ts';
import type { ReportedError } from '../src/stage/worker-messages.ts';
import { timelineLine } from '../src/view/timeline-line.ts';

/** Error as it comes from a worker. */
const reported = ({ name, message, code }: RedlockError): ReportedError => {
  return { name, message, code, isTyped: true, causes: [] };
};

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

it('names a seat as everybody does: the number of its evening in the id is for the locks', () => {
  const error = reported(new StaleTokenError('seat:C6/2', '41', '42'));
  const booking = { worker: 1, seatId: 'C6/2', customer: 'ana' } as const;
  const step = {
    name: 'booked',
    token: '41',
    holder: 'h',
    seatId: 'C6/2',
    customer: 'ana',
  } as const;
  const events: StageEvent[] = [
    { type: 'narrated', text: 'ana has paid for C6/2, and 3/5 nodes are up' },
    { type: 'step', worker: 1, step },
    { type: 'booking-ended', result: { ...booking, outcome: 'failed', error } },
  ];
  for (const event of events) {
    const line = timelineLine(event, true, (_, plain) => plain);
    expect(line).toContain('C6');
    expect(line).not.toContain('C6/2');
  }
});
