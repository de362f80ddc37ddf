import { Injectable } from '@nestjs/common';
import type { FencingToken } from 'nestjs-fenced-lock';
import type { PoolClient } from 'pg';

/** The seat as one transaction sees it. */
export interface Seat {
  readonly id: string;
  /** Customer who sits there; absent while it is free. */
  readonly customer: string | undefined;
}

/** Statements on seats. All take the transaction they run in: who opened it has checked the token, or not. */
@Injectable()
export class SeatsRepository {
  async find(client: PoolClient, seatId: string): Promise<Seat> {
    const { rows } = await client.query<{ customer: string | null }>(
      'SELECT customer FROM seat_sample.seat WHERE id = $1',
      [seatId],
    );
    return { id: seatId, customer: rows[0]?.customer ?? undefined };
  }

  /** Seats the customer, in place of anyone who sat there, and issues the ticket. */
  async assign(
    client: PoolClient,
    seatId: string,
    customer: string,
    token: FencingToken,
  ): Promise<void> {
    await client.query(
      `INSERT INTO seat_sample.seat (id, customer) VALUES ($1, $2)
       ON CONFLICT (id) DO UPDATE SET customer = EXCLUDED.customer`,
      [seatId, customer],
    );
    await client.query(
      'INSERT INTO seat_sample.ticket (seat, customer, token) VALUES ($1, $2, CAST($3 AS bigint))',
      [seatId, customer, String(token)],
    );
  }
}
