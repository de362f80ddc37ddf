import type { Act } from '../act.ts';
import { stopHolder } from './stop-holder.ts';

const SEAT_ID = 'D2';

/** The same with the lock alone: it can't stop a write of a process that does not know that its time is over. */
export const withoutFence: Act = {
  title: 'The same without the fence',
  promises: [
    { id: 'doubleBooking', text: 'the lock alone lets the seat be sold twice' },
    { id: 'reports', text: 'it reports the loss, but after the write' },
  ],
  showsEveryStep: true,
  async play(stage) {
    const { holder, successor, books } = await stopHolder(stage, {
      seatId: SEAT_ID,
      holder: 'cleo',
      successor: 'dan',
      fenced: false,
    });
    const seated = books.tickets.map(({ customer }) => customer);
    const isPaidTwice = books.payments.filter(({ refunded }) => !refunded).length === 2;
    const isSoldTwice = seated.join() === 'dan,cleo' && isPaidTwice;
    if (isSoldTwice) stage.tell(`${SEAT_ID} is sold twice: dan and cleo have paid`, 'bad');
    stage.observe(
      'doubleBooking',
      successor.outcome === 'booked' && isSoldTwice,
      `${SEAT_ID} sold to ${seated.join(' and ') || 'no customer'}${isPaidTwice ? ', both paid' : ''}`,
    );
    stage.observe(
      'reports',
      holder.error?.code === 'LOCK_LOST',
      `cleo: ${holder.error?.code ?? holder.outcome}`,
    );
  },
};
