import { describe, expect, it } from '@jest/globals';
import { INITIAL_SALE_STATE, saleAfter, type SaleState } from '../src/sale/sale-state.ts';
import type { BookingStepName } from '../src/seats/booking-journal.ts';
import type { TicketRow } from '../src/stage/books.ts';
import type { StageEvent } from '../src/stage/stage-event.ts';

/** State that the page shows follows from the recorded events, and from nothing else. */

const EVENING: StageEvent = { type: 'evening-opened', evening: 3, seats: ['A1/3', 'A2/3'] };

function step(name: BookingStepName, token = '7', newerToken?: string): StageEvent {
  const customer = 'ana';
  return {
    type: 'step',
    worker: 1,
    step: { name, seatId: 'A1/3', customer, token, holder: 'n', newerToken },
  };
}

function books(evening: number, ...customers: readonly string[]): StageEvent {
  const tickets: TicketRow[] = customers.map((customer, index) => ({
    seat: 'A1/3',
    customer,
    token: String(index),
  }));
  return { type: 'books-read', evening, books: { tickets, payments: [], ledger: [] } };
}

function after(...events: readonly StageEvent[]): SaleState {
  return events.reduce<SaleState>(
    (state, event, index) => saleAfter(state, { atMs: index, event }),
    INITIAL_SALE_STATE,
  );
}

describe('saleAfter', () => {
  it('marks a seat as sold when the database says so, not when a worker does', () => {
    expect(after(EVENING, step('booked')).seats[0]?.customers).toEqual([]);
    expect(after(EVENING, books(3, 'ana')).seats[0]?.customers).toEqual(['ana']);
  });

  it('counts a double booking once, however often the books are read', () => {
    const state = after(EVENING, books(3, 'ben'), books(3, 'ben', 'ana'), books(3, 'ben', 'ana'));
    expect(state.doubleBookings).toMatchObject([{ seatId: 'A1/3', customers: ['ben', 'ana'] }]);
    expect(state.doubleBookingCount).toBe(1);
  });

  it('ignores the books of another evening', () => {
    expect(after(EVENING, books(2, 'ben', 'ana'))).toMatchObject({
      seats: [{ customers: [] }, { customers: [] }],
      doubleBookingCount: 0,
    });
  });

  it('shows a refusal with both tokens, and its refund only after it was made', () => {
    const refused = after(EVENING, step('refused', '7', '9'));
    expect(refused.refusals).toMatchObject([{ token: '7', newerToken: '9', isRefunded: false }]);
    const refunded = saleAfter(refused, { atMs: 9, event: step('refunded') });
    expect(refunded.refusals).toMatchObject([{ isRefunded: true }]);
    expect(refunded.refusalCount).toBe(1);
  });

  it('keeps counting when it drops the oldest entries', () => {
    const events = Array.from({ length: 30 }, (_, index) => step('refused', String(index)));
    const state = after(EVENING, ...events);
    expect(state.refusalCount).toBe(30);
    expect(state.refusals).toHaveLength(8);
    expect(state.refusals[0]?.token).toBe('29');
    expect(new Set(state.timeline.map(({ id }) => id)).size).toBe(state.timeline.length);
    const narrated: StageEvent = { type: 'narrated', text: 'again' };
    expect(after(...Array.from({ length: 90 }, () => narrated)).timeline).toHaveLength(40);
  });

  it('lists a booking that was asked for until it has ended', () => {
    const booking = { worker: 2, seatId: 'A1/3', customer: 'ben' };
    const asked: StageEvent = { type: 'booking-asked', ...booking, fenced: false };
    expect(after(asked).asked).toEqual([{ ...booking, fenced: false }]);
    const result = { ...booking, outcome: 'taken' } as const;
    expect(after(asked, { type: 'booking-ended', result }).asked).toEqual([]);
  });

  it('shows the quarantine of a restarted node until the last worker lets it vote', () => {
    const joined = (worker: number, quarantineMs: number): StageEvent => ({
      type: 'lock',
      worker,
      event: { type: 'node-joined', address: 'a:1', quarantineMs },
    });
    expect(after(joined(1, 500), joined(2, 900), joined(3, 100)).quarantineUntilMs).toEqual({
      'a:1': 901,
    });
  });
});
