import type { Pool } from 'pg';
import { transaction } from '../seats/transaction.ts';
import type { Books, LedgerRow, PaymentRow, TicketRow } from './books.ts';

/** Reads what the database says about these seats. */
export function readBooks(pool: Pool, seats: readonly string[]): Promise<Books> {
  return transaction(pool, async (client) => {
    const tickets = await client.query<TicketRow>(
      `SELECT seat, customer, CAST(token AS text) AS token FROM seat_sample.ticket
        WHERE seat = ANY($1::text[]) ORDER BY position`,
      [seats],
    );
    const payments = await client.query<PaymentRow>(
      'SELECT seat, customer, refunded FROM seat_sample.payment WHERE seat = ANY($1::text[]) ORDER BY id',
      [seats],
    );
    const ledger = await client.query<LedgerRow>(
      `SELECT seat, CAST(token AS text) AS token, holder FROM seat_sample.ledger
        WHERE seat = ANY($1::text[]) ORDER BY position`,
      [seats],
    );
    return { tickets: tickets.rows, payments: payments.rows, ledger: ledger.rows };
  });
}
