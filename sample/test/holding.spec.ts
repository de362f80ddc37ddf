import { describe, expect, it } from '@jest/globals';
import { holdingsAfter, type Holding } from '../src/sale/holding.ts';
import type { BookingStepName } from '../src/seats/booking-journal.ts';
import type { StageEvent } from '../src/stage/stage-event.ts';

/** Holders as the page shows them come from what workers report and what nodes answer, also when the two disagree. */

const ADDRESSES = ['a:1', 'b:1', 'c:1', 'd:1', 'e:1'];

function step(worker: number, name: BookingStepName, customer = 'ana', holder = 'n1'): StageEvent {
  return { type: 'step', worker, step: { name, seatId: 'A1/1', customer, token: '7', holder } };
}

function ended(worker: number, outcome: 'booked' | 'failed', customer = 'ana'): StageEvent {
  return { type: 'booking-ended', result: { worker, seatId: 'A1/1', customer, outcome } };
}

/** Nodes answer with the holder, `null` for none, or not at all (`undefined`). */
function inspected(
  askedAtMs: number,
  answers: readonly (string | null | undefined)[],
  holder: string | null,
  remainingMs = 1500,
): StageEvent {
  const nodes = ADDRESSES.map((address, index) => ({
    address,
    holder: answers[index] ?? null,
    remainingMs,
    lastToken: '7',
    ...(answers[index] === undefined && {
      failure: { reason: 'timeout' as const, message: 'no answer' },
    }),
  }));
  const inspection = { key: 'seat:A1/1', holder, remainingMs, lastToken: '7', nodes };
  return { type: 'lock-inspected', askedAtMs, inspection };
}

function after(...events: readonly (readonly [number, StageEvent])[]): readonly Holding[] {
  return events.reduce<readonly Holding[]>(
    (holdings, [atMs, event]) => holdingsAfter(holdings, { atMs, event }),
    [],
  );
}

const CLAIMED = [100, step(1, 'claimed')] as const;
const ALL = ['n1', 'n1', 'n1', 'n1', 'n1'];

describe('holdingsAfter', () => {
  it('a holding begins with the claim, is valid as long as the nodes say, and ends with the booking', () => {
    const [holding] = after(
      CLAIMED,
      [150, step(1, 'paid')],
      [200, inspected(180, ALL, 'n1')],
      [300, step(1, 'booked')],
      [310, ended(1, 'booked')],
    );
    expect(holding).toMatchObject({
      fromMs: 100,
      isPaid: true,
      leaseUntilMs: 1700,
      nodes: ADDRESSES,
      outcome: 'booked',
      endedMs: 310,
    });
    expect(holding?.lostAtMs).toBeUndefined();
  });

  it('a holding is lost from the end of its lease on when a majority of nodes does not know the holder', () => {
    const [holding] = after(
      CLAIMED,
      [200, inspected(180, ALL, 'n1', 50)],
      [400, inspected(380, ['n2', 'n2', 'n2', null, null], 'n2')],
    );
    expect(holding).toMatchObject({ lostAtMs: 250, nodes: [] });
  });

  it('a holding is not lost because nodes do not answer', () => {
    const [holding] = after(
      CLAIMED,
      [200, inspected(180, ALL, 'n1')],
      [400, inspected(380, ['n1', null, null, undefined, undefined], null)],
    );
    expect(holding?.lostAtMs).toBeUndefined();
    expect(holding?.nodes).toEqual(['a:1']);
  });

  it('an answer to a question from before a holding says nothing about it', () => {
    const [holding] = after(CLAIMED, [110, inspected(90, [null, null, null, null, null], null)]);
    expect(holding).toEqual(after(CLAIMED)[0]);
  });

  it('holdings of two workers for one seat are kept apart', () => {
    const holdings = after(
      CLAIMED,
      [2200, step(2, 'claimed', 'ben', 'n2')],
      [2300, inspected(2250, ['n2', 'n2', 'n2', 'n2', 'n2'], 'n2')],
      [3000, step(2, 'booked', 'ben', 'n2')],
      [3001, ended(2, 'booked', 'ben')],
      [3100, step(1, 'refused')],
      [3200, ended(1, 'failed')],
    );
    expect(holdings).toMatchObject([
      { customer: 'ana', outcome: 'refused', lostAtMs: 2300, endedMs: 3200 },
      { customer: 'ben', outcome: 'booked', endedMs: 3001 },
    ]);
    expect(holdings[1]?.lostAtMs).toBeUndefined();
  });

  it('a holding of a worker that is gone is over', () => {
    const [holding] = after(CLAIMED, [500, { type: 'worker', worker: 1, state: 'gone' }]);
    expect(holding).toMatchObject({ outcome: 'failed', endedMs: 500 });
  });

  it('holdings that ended long ago are dropped', () => {
    const holdings = after(
      CLAIMED,
      [200, ended(1, 'booked')],
      [60_000, step(2, 'claimed', 'ben', 'n2')],
    );
    expect(holdings.map(({ customer }) => customer)).toEqual(['ben']);
  });
});
