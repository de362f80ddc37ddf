/** Wish that says who asks for what next. */
export interface BookingWish {
  readonly seatId: string;
  readonly customer: string;
}

/** Seats and customers that a wish is chosen from. */
export interface Choice {
  /** Unsold seats that no customer is booking. */
  readonly freeSeats: readonly string[];
  /** Seats that a customer is booking right now. */
  readonly contendedSeats: readonly string[];
  /** Customers who are not waiting for anything. */
  readonly idleCustomers: readonly string[];
}

/** Share of the customers who want the seat that another one is about to get. */
const CONTENTION = 0.2;

/**
 * The next wish, or undefined when no customer wants anything.
 * @param random numbers from 0 to below 1.
 */
export function chooseBooking(
  { freeSeats, contendedSeats, idleCustomers }: Choice,
  random: () => number,
): BookingWish | undefined {
  const contends = freeSeats.length > 0 && random() < CONTENTION;
  const seatId = (contends ? pick(contendedSeats, random) : undefined) ?? pick(freeSeats, random);
  const customer = pick(idleCustomers, random);
  return seatId === undefined || customer === undefined ? undefined : { seatId, customer };
}

function pick<T>(items: readonly T[], random: () => number): T | undefined {
  return items[Math.floor(random() * items.length)];
}
