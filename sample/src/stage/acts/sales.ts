import { outOfOrder, unsettled, wronglySold } from '../books.ts';
import { refusedWhileHolding } from '../refusals.ts';
import type { Stage } from '../stage.ts';
import type { Promised } from '../summary.ts';

/** Promises that hold for any fenced sale, whatever happens to the servers meanwhile. */
export const SALE_PROMISES = {
  soldOnce: 'every seat is sold, to one customer',
  settled: 'customers who paid have a seat, and the others paid nothing',
  exclusive: 'the database rejects no worker that holds the lock',
  ordered: 'the token grows with every holder of a seat',
} as const;

/** The sale promises as an act lists them. */
export function salePromises(): Promised[] {
  return Object.entries(SALE_PROMISES).map(([id, text]) => ({ id, text }));
}

/** Lets every customer ask for every seat; once the first has paid, something strikes. Resolves when the sale is over. */
export async function sellDuring(
  stage: Stage,
  seats: readonly string[],
  customers: readonly string[],
  strike: () => Promise<void>,
): Promise<void> {
  const underWay = stage.log.next(
    (event) => event.type === 'step' && event.step.name === 'paid',
    'no customer has paid',
  );
  const sale = stage.sell(seats, customers);
  await Promise.race([underWay, sale]);
  await strike();
  await sale;
}

/** Asks the database whether the sale promises were kept for these seats. */
export async function observeSale(stage: Stage, seats: readonly string[]): Promise<void> {
  const books = await stage.books(seats);
  const wrong = wronglySold(books, seats);
  stage.observe(
    'soldOnce',
    wrong.length === 0,
    wrong.join(', ') || `${books.tickets.length} tickets for ${seats.length} seats`,
  );
  const open = unsettled(books);
  const refunds = books.payments.filter(({ refunded }) => refunded).length;
  stage.observe(
    'settled',
    open.length === 0,
    open.join(', ') || `${books.payments.length} payments, ${refunds} refunds`,
  );
  const overlapping = refusedWhileHolding(stage.eventsSince(0), seats);
  stage.observe(
    'exclusive',
    overlapping.length === 0,
    overlapping.join(', ') || `${books.ledger.length} holders, one after the other`,
  );
  const disorder = outOfOrder(books);
  stage.observe(
    'ordered',
    books.ledger.length > 0 && disorder.length === 0,
    disorder.join(', ') || `${books.ledger.length} tokens, each larger than the one before`,
  );
}
