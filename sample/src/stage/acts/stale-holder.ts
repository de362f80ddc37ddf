import type { Act } from '../act.ts';
import { outOfOrder } from '../books.ts';
import { stopHolder } from './stop-holder.ts';

const SEAT_ID = 'D1';

/** A holder that comes back from the dead is refused by the database, and its customer gets the money back. */
export const staleHolder: Act = {
  title: 'A holder comes back from the dead',
  promises: [
    { id: 'passesOn', text: 'the seat of a stopped holder goes to the next one' },
    { id: 'refuses', text: 'the late write is rejected by the database' },
    {
      id: 'refunds',
      text: 'the customer of the rejected write is refunded, the seated one is not',
    },
    { id: 'ordered', text: 'the token grows with every holder of a seat' },
  ],
  showsEveryStep: true,
  async play(stage) {
    const { holder, successor, books } = await stopHolder(stage, {
      seatId: SEAT_ID,
      holder: 'ana',
      successor: 'ben',
      fenced: true,
    });
    stage.observe(
      'passesOn',
      successor.outcome === 'booked',
      `ben: ${successor.error?.message ?? successor.outcome}`,
    );
    const seated = books.tickets.map(({ customer }) => customer);
    const isRefused = holder.error?.code === 'STALE_TOKEN' && seated.join() === 'ben';
    if (isRefused) stage.tell(`${SEAT_ID} belongs to ben, and ana has her money back`, 'good');
    stage.observe(
      'refuses',
      isRefused,
      `ana: ${holder.error?.code ?? holder.outcome}; ${SEAT_ID} sold to ${seated.join(' and ') || 'no customer'}`,
    );
    const money = books.payments.map(
      ({ customer, refunded }) => `${customer} ${refunded ? 'refunded' : 'paid'}`,
    );
    stage.observe('refunds', money.join() === 'ana refunded,ben paid', money.join(', '));
    const tokens = books.ledger.map(({ token }) => token);
    stage.observe(
      'ordered',
      tokens.length === 2 && outOfOrder(books).length === 0,
      tokens.join(' < '),
    );
  },
};
