/** Records of the database about some seats: the only witness that counts. */
export interface Books {
  readonly tickets: readonly TicketRow[];
  readonly payments: readonly PaymentRow[];
  /** Holders in the order in which they reached the database. */
  readonly ledger: readonly LedgerRow[];
}

export interface TicketRow {
  readonly seat: string;
  readonly customer: string;
  /** Decimal. */
  readonly token: string;
}

export interface PaymentRow {
  readonly seat: string;
  readonly customer: string;
  readonly refunded: boolean;
}

export interface LedgerRow {
  readonly seat: string;
  /** Decimal. */
  readonly token: string;
  /** Identity of the grant. */
  readonly holder: string;
}

/** Seats which were not sold to exactly one customer, each with what was found. */
export function wronglySold(books: Books, seats: readonly string[]): string[] {
  return seats.flatMap((seat) => {
    const buyers = books.tickets.filter((ticket) => ticket.seat === seat);
    if (buyers.length === 1) return [];
    if (buyers.length === 0) return [`${seat} was not sold`];
    return [`${seat} was sold to ${buyers.map(({ customer }) => customer).join(' and ')}`];
  });
}

/** Customers whose money and ticket don't match: paid without a seat, or seated without having paid. */
export function unsettled(books: Books): string[] {
  const open = books.payments.filter(({ refunded }) => !refunded);
  const unserved = excess(open, books.tickets).map(
    ({ customer, seat }) => `${customer} paid for ${seat} and has no ticket`,
  );
  const unpaid = excess(books.tickets, open).map(
    ({ customer, seat }) => `${customer} has a ticket for ${seat} and has not paid`,
  );
  return [...unserved, ...unpaid];
}

/** Holders whose token is not larger than that of the holder of this seat before them. */
export function outOfOrder(books: Books): string[] {
  const latest = new Map<string, bigint>();
  const found: string[] = [];
  for (const { seat, token, holder } of books.ledger) {
    const before = latest.get(seat);
    const value = BigInt(token);
    if (before !== undefined && value <= before) {
      found.push(`${holder} came to ${seat} with token ${token} after ${before}`);
    }
    if (before === undefined || value > before) latest.set(seat, value);
  }
  return found;
}

interface Entry {
  readonly seat: string;
  readonly customer: string;
}

/** Entries of `left` that have no partner of their own in `right`. */
function excess<Left extends Entry>(left: readonly Left[], right: readonly Entry[]): Left[] {
  const free = [...right];
  return left.filter(({ seat, customer }) => {
    const partner = free.findIndex((entry) => entry.seat === seat && entry.customer === customer);
    if (partner < 0) return true;
    free.splice(partner, 1);
    return false;
  });
}
