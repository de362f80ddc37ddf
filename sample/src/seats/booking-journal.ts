/** Steps of a booking, in the order in which it does them. */
export type BookingStepName =
  /** The lock is held and the database knows its token. */
  | 'claimed'
  /** The seat was sold before: nothing was charged. */
  | 'found-taken'
  | 'paid'
  | 'booked'
  /** The database has seen a newer token: the write was rolled back. */
  | 'refused'
  | 'refunded';

export interface BookingStep {
  readonly name: BookingStepName;
  readonly seatId: string;
  readonly customer: string;
  /** Decimal. */
  readonly token: string;
  /** Identity of the grant, as the nodes know the holder. */
  readonly holder: string;
  /** The newer token that a refused holder met, decimal. */
  readonly newerToken?: string;
}

/** Journal in which the seats service tells what it does. The sample's workers pass it on to the conductor. */
export abstract class BookingJournal {
  abstract record(step: BookingStep): void;
}
