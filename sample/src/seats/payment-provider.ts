import { Injectable } from '@nestjs/common';
import { Pool } from 'pg';
import { transaction } from './transaction.ts';

/** Time that the provider takes to answer. */
const ANSWER_DELAY_MS = Number(process.env['PAYMENT_ANSWER_MS'] ?? 60);

/**
 * Service of another company, so its books commit on their own: a rollback here brings no money back, only a refund does.
 */
@Injectable()
export class PaymentProvider {
  readonly #answersHeldBack = new Map<string, HeldAnswer>();

  constructor(private readonly pool: Pool) {}

  /** Stage direction: the answer to this customer's next payment stays out until {@link letAnswerThrough}. */
  holdAnswerBack(customer: string): void {
    let resolve!: () => void;
    const promise = new Promise<void>((settle) => {
      resolve = settle;
    });
    this.#answersHeldBack.set(customer, { promise, resolve });
  }

  letAnswerThrough(customer: string): void {
    this.#answersHeldBack.get(customer)?.resolve();
    this.#answersHeldBack.delete(customer);
  }

  /**
   * Charges the customer. The money has moved when `onCharged` is called; the answer comes later.
   * @returns the payment's number.
   */
  async charge(seatId: string, customer: string, onCharged: () => void): Promise<string> {
    const paymentId = await transaction(this.pool, async (client) => {
      const { rows } = await client.query<{ id: string }>(
        'INSERT INTO seat_sample.payment (seat, customer) VALUES ($1, $2) RETURNING CAST(id AS text) AS id',
        [seatId, customer],
      );
      return rows[0]!.id;
    });
    onCharged();
    await new Promise((resolve) => setTimeout(resolve, ANSWER_DELAY_MS));
    await this.#answersHeldBack.get(customer)?.promise;
    return paymentId;
  }

  async refund(paymentId: string): Promise<void> {
    await transaction(this.pool, (client) =>
      client.query('UPDATE seat_sample.payment SET refunded = true WHERE id = $1', [paymentId]),
    );
  }
}

interface HeldAnswer {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
}
