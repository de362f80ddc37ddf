import { setTimeout as sleep } from 'node:timers/promises';
import { seatName, type Result } from './log.ts';
import type { Stage } from './stage.ts';

/** Who plays in a story of a holder that is stopped. */
export interface Cast {
  /** With the fence in the database, or with the lock alone. */
  readonly fenced: boolean;
  readonly seat: string;
  /** Its worker is stopped after the customer has paid, and before it writes. */
  readonly holder: Role;
  /** Asks another worker for the same seat meanwhile. */
  readonly successor: Role;
}

export interface Role {
  /** From 1. */
  readonly worker: number;
  readonly customer: string;
}

/**
 * Stops the holder for longer than its lock lives, until the successor has the seat. Then it wakes up in the middle of its method,
 * and goes on to write. It never stops in the middle of a transaction, because its booking is held back in the journal.
 * @param pauseMs how long the successor has the seat before the late write: eyes need a moment
 * @throws Error when the holder never pays, or the successor does not get the seat.
 */
export async function pauseHolder(stage: Stage, cast: Cast, pauseMs = 0): Promise<Result> {
  const { fenced, seat, holder, successor } = cast;
  const worker = stage.worker(holder.worker);
  const paid = stage.log.next(
    (event) =>
      (event.type === 'ended' || (event.type === 'step' && event.name === 'paid')) &&
      event.customer === holder.customer &&
      event.seat === seat,
  );
  const late = worker.book(seat, holder.customer, { fenced, holdAfter: 'paid' });
  const event = await paid;
  if (event.type === 'ended') throw new Error(`${holder.customer} can't pay (${reasonOf(event)})`);
  worker.stop();
  let next: Result;
  try {
    stage.log.tell(
      `${holder.customer} has paid for ${seatName(seat)}: worker ${worker.number} is stopped (SIGSTOP) before it writes`,
    );
    stage.log.tell(
      `${successor.customer} asks worker ${successor.worker}, and waits for the lock to run out`,
    );
    next = await stage.worker(successor.worker).book(seat, successor.customer, { fenced });
    await sleep(pauseMs);
  } finally {
    worker.go(holder.customer);
    worker.wakeUp();
  }
  stage.log.tell(`worker ${worker.number} wakes up (SIGCONT), and goes on where it was: it writes`);
  const result = await late;
  if (next.outcome !== 'booked')
    throw new Error(`${successor.customer} does not get the seat (${reasonOf(next)})`);
  return result;
}

function reasonOf({ code, outcome }: Result): string {
  return code === 'QUORUM_UNAVAILABLE' ? 'most of the servers are away' : (code ?? outcome);
}
