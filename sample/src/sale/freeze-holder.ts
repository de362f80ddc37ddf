import { setTimeout as sleep } from 'node:timers/promises';
import type { BookingResult } from '../stage/booking-result.ts';
import type { Stage } from '../stage/stage.ts';
import type { EndlessSale } from './endless-sale.ts';
import type { StoryCast } from './story.ts';

/** Eyes need a moment between the successor's write and the late one. */
const PAUSE_MS = 900;

/**
 * Stops the holder's worker between paying and writing, until the successor has the seat. Then it wakes up and writes.
 * The payment provider's answer is held back, so that the worker never stops in the middle of a transaction.
 * @throws Error when the holder never pays, or the sale ends.
 */
export async function freezeHolder(
  sale: EndlessSale,
  cast: StoryCast,
  signal: AbortSignal,
): Promise<void> {
  const { stage } = sale;
  const { fenced, seatId, holder, successor } = cast;
  const worker = stage.worker(holder.worker);
  stage.log.append({ type: 'story-begun', ...cast });
  const paid = stage.step('paid', holder.customer);
  const others = sale.openBookings.filter((booking) => booking.worker === holder.worker);
  const late = sale.book({ ...holder, seatId, fenced }, { holdAnswer: true });
  let next: BookingResult | undefined;
  try {
    await Promise.race([paid, late.then(failEarly)]);
    await Promise.all(others.map(({ result }) => result));
    worker.stop();
    stage.tell(
      `${holder.customer} has paid for ${seatId}; worker ${worker.number} is stopped, holding it`,
    );
    stage.tell(
      `${successor.customer} asks for ${seatId} at worker ${successor.worker}, and waits for the lock to run out`,
    );
    next = await sale.book({ ...successor, seatId, fenced });
    await sleep(PAUSE_MS, undefined, { signal });
  } finally {
    worker.letAnswerThrough(holder.customer);
    worker.wakeUp();
  }
  stage.tell(`worker ${worker.number} wakes up and goes on where it was: it writes`);
  const result = await late;
  if (next?.outcome !== 'booked') {
    throw new Error(`${successor.customer} did not get the seat (${reasonOf(next)})`);
  }
  tellOutcome(stage, result, next);
}

function failEarly(result: BookingResult | undefined): never {
  throw new Error(`nobody could pay (${reasonOf(result)})`);
}

function reasonOf(result: BookingResult | undefined): string {
  if (!result) return 'the worker is gone';
  const { error, outcome } = result;
  return error?.code === 'QUORUM_UNAVAILABLE'
    ? 'most of the servers are away'
    : (error?.code ?? error?.name ?? outcome);
}

/** Reports what became of the two, as their workers know it. What the database has is read apart from this. */
function tellOutcome(
  stage: Stage,
  holder: BookingResult | undefined,
  { seatId, customer }: BookingResult,
): void {
  if (holder?.error?.code === 'STALE_TOKEN') {
    stage.tell(`${seatId} belongs to ${customer}; ${holder.customer} has the money back`, 'good');
  } else if (holder?.error?.code === 'LOCK_LOST') {
    stage.tell(
      `the worker of ${holder.customer} learns that the lock was lost, but has written already`,
      'bad',
    );
  }
}
