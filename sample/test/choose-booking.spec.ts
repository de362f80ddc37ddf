import { describe, expect, it } from '@jest/globals';
import { chooseBooking } from '../src/sale/choose-booking.ts';

const CHOICE = { freeSeats: ['A1', 'A2'], contendedSeats: ['B1'], idleCustomers: ['ana', 'ben'] };

function numbers(...values: number[]): () => number {
  return () => values.shift()!;
}

describe('chooseBooking', () => {
  it('chooses free seats mostly, and sometimes a seat that another customer is booking', () => {
    expect(chooseBooking(CHOICE, numbers(0.9, 0.6, 0))).toEqual({ seatId: 'A2', customer: 'ana' });
    expect(chooseBooking(CHOICE, numbers(0, 0, 0.9))).toEqual({ seatId: 'B1', customer: 'ben' });
    const calm = { ...CHOICE, contendedSeats: [] };
    expect(chooseBooking(calm, numbers(0, 0, 0, 0))).toEqual({ seatId: 'A1', customer: 'ana' });
  });

  it('chooses nothing when every seat is sold or being sold, or no customer is idle', () => {
    expect(chooseBooking({ ...CHOICE, freeSeats: [] }, () => 0)).toBeUndefined();
    expect(chooseBooking({ ...CHOICE, idleCustomers: [] }, () => 0)).toBeUndefined();
  });
});
