import type { BookingResult } from '../booking-result.ts';
import type { Books } from '../books.ts';
import type { Stage } from '../stage.ts';

interface Cast {
  readonly seatId: string;
  /** Her worker is stopped between paying and writing. */
  readonly holder: string;
  /** Asks another worker for the same seat meanwhile. */
  readonly successor: string;
  readonly fenced: boolean;
}

export interface StopHolderOutcome {
  readonly holder: BookingResult;
  readonly successor: BookingResult;
  /** Books of the database in the end. */
  readonly books: Books;
}

/**
 * Worker 1 holds a seat, its customer has paid, and it is stopped for longer than its lock lives. Worker 2 gets the lock and
 * books the seat. Then worker 1 wakes up in the middle of its method and goes on to write.
 */
export async function stopHolder(
  stage: Stage,
  { seatId, holder, successor, fenced }: Cast,
): Promise<StopHolderOutcome> {
  const [first, second] = [stage.worker(1), stage.worker(2)];
  const paid = stage.step('paid', holder);
  const late = first.book(seatId, holder, { fenced, holdAnswer: true });
  // Promise is awaited further down; until then a worker that ended is no unhandled rejection.
  late.catch(() => undefined);
  const early = await Promise.race([paid.then(() => undefined), late]);
  if (early) throw new Error(`${holder} never paid: ${early.error?.message ?? early.outcome}`);
  first.stop();
  let next: BookingResult;
  try {
    stage.tell(
      `${holder} has paid. Her worker is stopped (SIGSTOP) before it writes, and holds the lock`,
    );
    stage.tell(`${successor} asks for ${seatId} at worker 2 and waits for the lock to run out`);
    next = await second.book(seatId, successor, { fenced });
  } finally {
    first.letAnswerThrough(holder);
    first.wakeUp();
  }
  stage.tell('worker 1 wakes up (SIGCONT) and goes on where it was: it writes');
  return { holder: await late, successor: next, books: await stage.books([seatId]) };
}
