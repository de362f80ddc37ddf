import { describe, expect, it } from '@jest/globals';
import { refusedWhileHolding } from '../src/stage/refusals.ts';
import type { StageEvent } from '../src/stage/stage-event.ts';

/** A refusal is all right for a holder that lost its lock, and shows a broken lock otherwise. */

function refusal(worker: number, seatId: string, code = 'STALE_TOKEN'): StageEvent {
  const error = { name: 'StaleTokenError', message: '', isTyped: true, code, causes: [] };
  const result = { worker, seatId, customer: 'ana', outcome: 'failed', error } as const;
  return { type: 'booking-ended', result };
}

function loss(worker: number, key: string): StageEvent {
  return { type: 'lock', worker, event: { type: 'lost', keys: [key], token: 1 } };
}

describe('refusedWhileHolding', () => {
  it('does not list a refusal of a holder whose lock was reported lost', () => {
    expect(refusedWhileHolding([loss(1, 'seat:A1'), refusal(1, 'A1')], ['A1'])).toEqual([]);
  });

  it('lists a refusal of a holder whose lock was not reported lost', () => {
    expect(refusedWhileHolding([refusal(1, 'A1')], ['A1'])).toEqual([
      'the write of ana to A1 was rejected while its lock was held',
    ]);
  });

  it('does not excuse a refusal by the loss of another seat or another worker', () => {
    const events = [loss(1, 'seat:A2'), loss(2, 'seat:A1'), refusal(1, 'A1')];
    expect(refusedWhileHolding(events, ['A1'])).toHaveLength(1);
  });

  it('ignores other seats and other errors', () => {
    const events = [refusal(1, 'A1'), refusal(1, 'A2', 'LOCK_BUSY')];
    expect(refusedWhileHolding(events, ['A2'])).toEqual([]);
  });
});
