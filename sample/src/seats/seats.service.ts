import { Injectable } from '@nestjs/common';
import { Fenced, FencingToken, fencingToken, StaleTokenError } from 'nestjs-fenced-lock';
import { Fence } from 'nestjs-fenced-lock/fencing';
import { Pool, type PoolClient } from 'pg';
import { BookingJournal, type BookingStepName } from './booking-journal.ts';
import { PaymentProvider } from './payment-provider.ts';
import { SeatsRepository } from './seats.repository.ts';
import { transaction } from './transaction.ts';

/** End of a booking for the customer. */
export type BookingOutcome = 'booked' | 'taken';

@Injectable()
export class SeatsService {
  constructor(
    private readonly fence: Fence<PoolClient>,
    private readonly pool: Pool,
    private readonly seats: SeatsRepository,
    private readonly payments: PaymentProvider,
    private readonly journal: BookingJournal,
  ) {}

  /**
   * Books a seat for a customer, who pays first. One process at a time per seat, and the database has the last word:
   *
   * - `claim: true`, because the seat is read long before the transaction that writes it. From the claim on every older
   *   holder is refused; without it, one could still write after we have read.
   * - `fence.transaction` for what is written: it checks the token again, under a row lock.
   *
   * A write that passed the fence is good, whatever became of the lock meanwhile: the call returns its result.
   *
   * @returns `'taken'` when the seat was sold before; nothing was charged.
   * @throws StaleTokenError when a newer holder took over meanwhile: nothing was written, the customer was refunded.
   */
  @Fenced((seatId: string) => `seat:${seatId}`, { claim: true })
  async book(
    seatId: string,
    customer: string,
    @FencingToken() token = fencingToken(),
  ): Promise<BookingOutcome> {
    this.#tell('claimed', seatId, customer, token);
    if (await this.#isTaken(seatId, customer, token)) return 'taken';

    const paymentId = await this.#charge(seatId, customer, token);
    try {
      await this.fence.transaction(token, (tx) => this.seats.assign(tx, seatId, customer, token));
    } catch (error) {
      if (error instanceof StaleTokenError) {
        this.#tell('refused', seatId, customer, token, error.currentToken);
        await this.payments.refund(paymentId);
        this.#tell('refunded', seatId, customer, token);
      }
      throw error;
    }
    this.#tell('booked', seatId, customer, token);
    return 'booked';
  }

  /**
   * The same with the lock alone, to show what it can't do: the process may stop between any two lines, also right after a check
   * that the lock is still held, and wake up when somebody else has the seat.
   *
   * @throws LockLostError when the lock was lost meanwhile; the write is done by then.
   */
  @Fenced((seatId: string) => `seat:${seatId}`)
  async bookWithoutFence(
    seatId: string,
    customer: string,
    @FencingToken() token = fencingToken(),
  ): Promise<BookingOutcome> {
    this.#tell('claimed', seatId, customer, token);
    if (await this.#isTaken(seatId, customer, token)) return 'taken';

    await this.#charge(seatId, customer, token);
    await transaction(this.pool, (client) => this.seats.assign(client, seatId, customer, token));
    this.#tell('booked', seatId, customer, token);
    return 'booked';
  }

  async #isTaken(seatId: string, customer: string, token: FencingToken): Promise<boolean> {
    const seat = await transaction(this.pool, (client) => this.seats.find(client, seatId));
    if (seat.customer === undefined) return false;
    this.#tell('found-taken', seatId, customer, token);
    return true;
  }

  #charge(seatId: string, customer: string, token: FencingToken): Promise<string> {
    return this.payments.charge(seatId, customer, () =>
      this.#tell('paid', seatId, customer, token),
    );
  }

  #tell(
    name: BookingStepName,
    seatId: string,
    customer: string,
    token: FencingToken,
    newerToken?: string,
  ): void {
    this.journal.record({
      name,
      seatId,
      customer,
      token: String(token),
      holder: token.holder,
      newerToken,
    });
  }
}
