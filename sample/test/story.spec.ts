import { describe, expect, it } from '@jest/globals';
import { storiesAfter, type Story } from '../src/sale/story.ts';
import type { BookingStepName } from '../src/seats/booking-journal.ts';
import type { StageEvent } from '../src/stage/stage-event.ts';

/** The drawn story goes on with what workers, nodes and the database report, and with nothing else. */

function begun(fenced: boolean, seatId = 'A1/1'): StageEvent {
  const holder = { worker: 1, customer: 'ana' };
  return { type: 'story-begun', fenced, seatId, holder, successor: { worker: 2, customer: 'ben' } };
}

function step(name: BookingStepName, customer: string, token: string): StageEvent {
  const worker = customer === 'ana' ? 1 : 2;
  const newerToken = name === 'refused' ? '42' : undefined;
  const of = { name, seatId: 'A1/1', customer, token, holder: customer, newerToken };
  return { type: 'step', worker, step: of };
}

function holderIs(state: 'working' | 'stopped'): StageEvent {
  return { type: 'worker', worker: 1, state };
}

function stories(...events: readonly StageEvent[]): readonly Story[] {
  return events.reduce<readonly Story[]>(
    (before, event, atMs) => storiesAfter(before, { atMs, event }),
    [],
  );
}

function tickets(...customers: readonly string[]): StageEvent {
  const rows = customers.map((customer) => ({ seat: 'A1/1', customer, token: '1' }));
  return { type: 'books-read', evening: 1, books: { tickets: rows, payments: [], ledger: [] } };
}

const UNTIL_SEATED = [
  step('claimed', 'ana', '41'),
  step('paid', 'ana', '41'),
  holderIs('stopped'),
  step('claimed', 'ben', '42'),
  step('booked', 'ben', '42'),
];

describe('storiesAfter', () => {
  it('goes from step to step, and ends with the number that refused', () => {
    const events = [
      begun(true),
      ...UNTIL_SEATED,
      holderIs('working'),
      step('refused', 'ana', '41'),
    ];
    const phases = events.map((_, index) => stories(...events.slice(0, index + 1))[0]?.phase);
    expect(phases).toEqual([
      'begun',
      'begun',
      'begun',
      'stopped',
      'ran-out',
      'seated',
      'woken',
      'refused',
    ]);
    expect(stories(...events)).toMatchObject([
      { floor: '42', holder: { token: '41' }, successor: { token: '42' }, isRefunded: false },
    ]);
    expect(stories(...events, step('refunded', 'ana', '41'))[0]?.isRefunded).toBe(true);
  });

  it('the database remembers nothing without the fence, and its tickets say that a seat is sold twice', () => {
    const woken = [begun(false), ...UNTIL_SEATED, holderIs('working'), step('booked', 'ana', '41')];
    expect(stories(...woken, tickets('ben'))).toMatchObject([{ phase: 'woken', floor: undefined }]);
    expect(stories(...woken, tickets('ben', 'ana'))).toMatchObject([{ phase: 'sold-twice' }]);
  });

  it('keeps the newest story of each kind', () => {
    const both = stories(begun(true), begun(false, 'B1/1'), ...UNTIL_SEATED);
    expect(both.map(({ fenced, phase }) => [fenced, phase])).toEqual([
      [true, 'seated'],
      [false, 'stopped'],
    ]);
    expect(stories(begun(true), ...UNTIL_SEATED, begun(true))).toMatchObject([{ phase: 'begun' }]);
  });

  it('says why it broke off, unless it had ended', () => {
    const broken: StageEvent = { type: 'story-broken-off', fenced: true, reason: 'no majority' };
    expect(stories(begun(true), broken)).toMatchObject([
      { phase: 'broken-off', reason: 'no majority' },
    ]);
    const refused = [
      begun(true),
      ...UNTIL_SEATED,
      holderIs('working'),
      step('refused', 'ana', '41'),
    ];
    expect(stories(...refused, broken)).toMatchObject([{ phase: 'refused' }]);
  });
});
