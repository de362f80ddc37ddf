import type { StageEvent } from './stage-event.ts';

/**
 * Bookings of these seats that the database refused although their lock was never reported lost: two holders at once, each
 * believing in its lock. The fence saves the data then, but the lock did not do its part.
 */
export function refusedWhileHolding(
  events: readonly StageEvent[],
  seats: readonly string[],
): string[] {
  return events.flatMap((event) => {
    if (event.type !== 'booking-ended' || event.result.error?.code !== 'STALE_TOKEN') return [];
    const { worker, seatId, customer } = event.result;
    if (!seats.includes(seatId) || wasLost(events, worker, `seat:${seatId}`)) return [];
    return [`the write of ${customer} to ${seatId} was rejected while its lock was held`];
  });
}

function wasLost(events: readonly StageEvent[], worker: number, key: string): boolean {
  return events.some(
    (event) =>
      event.type === 'lock' &&
      event.worker === worker &&
      event.event.type === 'lost' &&
      event.event.keys.includes(key),
  );
}
