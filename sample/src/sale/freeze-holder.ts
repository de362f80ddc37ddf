import type { BookingResult } from '../stage/booking-result.ts';
import type { Stage } from '../stage/stage.ts';
import type { EndlessSale, OpenBooking } from './endless-sale.ts';

/**
 * Stops the worker of the next customer who pays, until another customer was served at another worker. The payment
 * provider takes a while to answer, so the worker is stopped between paying and writing. Then it wakes up and writes.
 * @throws Error when no customer pays, or no other worker is there.
 */
export async function freezeHolder(sale: EndlessSale): Promise<void> {
  const { stage } = sale;
  const holder = await nextPaid(sale);
  const worker = stage.worker(holder.worker);
  const other = stage.workers.find(
    ({ number, state }) => state === 'working' && number !== holder.worker,
  );
  if (!other) throw new Error('there is no other worker to go on');
  const { seatId, customer, fenced } = holder;
  sale.reserve(seatId);
  worker.stop();
  const next = sale.idleCustomer();
  let successor: BookingResult | undefined;
  try {
    stage.tell(
      `${customer} has paid for ${seatId}; worker ${worker.number} is stopped, holding it`,
    );
    stage.tell(
      `${next} asks for ${seatId} at worker ${other.number}, and waits for the lock to run out`,
    );
    successor = await sale.book({ worker: other.number, seatId, customer: next, fenced });
  } finally {
    worker.wakeUp();
  }
  stage.tell(`worker ${worker.number} wakes up and goes on where it was: it writes`);
  tellOutcome(stage, await holder.result, successor);
}

/** The next customer who pays under the rules of now. */
async function nextPaid(sale: EndlessSale): Promise<OpenBooking> {
  let holder: OpenBooking | undefined;
  await sale.stage.log.next((event) => {
    if (event.type !== 'step' || event.step.name !== 'paid') return false;
    const { seatId, customer } = event.step;
    holder = sale.openBookings.find(
      (booking) =>
        booking.seatId === seatId &&
        booking.customer === customer &&
        booking.fenced === sale.isFenced,
    );
    return holder !== undefined;
  }, 'no customer pays. Is a majority of the nodes up?');
  return holder!;
}

/** Reports what became of the two, as their workers know it. What the database has is read apart from this. */
function tellOutcome(
  stage: Stage,
  holder: BookingResult | undefined,
  successor: BookingResult | undefined,
): void {
  if (!holder || !successor) return;
  if (holder.error?.code === 'STALE_TOKEN') {
    const { seatId, customer } = successor;
    stage.tell(`${seatId} belongs to ${customer}; ${holder.customer} has the money back`, 'good');
  } else if (holder.error?.code === 'LOCK_LOST' && successor.outcome === 'booked') {
    stage.tell(
      `the worker of ${holder.customer} learns that the lock was lost, but has written already`,
      'bad',
    );
  }
}
