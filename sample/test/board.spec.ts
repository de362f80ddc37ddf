import { expect, it } from '@jest/globals';
import { ShowLog } from '../show/log.ts';
import { Board } from '../show/page/board.ts';
import type { StepName } from '../show/seats.ts';
import type { Stage } from '../show/stage.ts';

/** What the page shows follows from what workers and the database report, and from nothing else. */

const SEAT = 'A1/1';
const TOKENS = { ana: '41', ben: '42' };

function boardWithStory(fenced: boolean) {
  const log = new ShowLog();
  const board = new Board(log);
  const workers = [{ state: 'working' }, { state: 'working' }];
  board.show({ serverStates: ['up'], workers, canKill: true } as unknown as Stage);
  board.seats = [{ id: SEAT, customers: [] }];
  const [holder, successor] = [
    { worker: 1, customer: 'ana' },
    { worker: 2, customer: 'ben' },
  ];
  board.beginStory({ fenced, seat: SEAT, holder, successor });
  const step = (name: StepName, customer: 'ana' | 'ben'): void => {
    const worker = customer === 'ana' ? 1 : 2;
    const token = TOKENS[customer];
    log.append({ type: 'step', worker, name, seat: SEAT, customer, token, newerToken: '42' });
  };
  const worker = (state: 'stopped' | 'working'): void =>
    log.append({ type: 'worker', worker: 1, state });
  const books = (...customers: string[]): void =>
    board.recordBooks({
      tickets: customers.map((customer) => ({ seat: SEAT, customer })),
      payments: [],
    });
  const phases = [
    () => step('claimed', 'ana'),
    () => worker('stopped'),
    () => step('claimed', 'ben'),
    () => step('booked', 'ben'),
    () => worker('working'),
  ].map((happens) => {
    happens();
    return board.stories[0]!.phase;
  });
  return { board, step, books, phases };
}

it('the story goes from step to step, and ends with the number that rejects the late write', () => {
  const { board, step, phases } = boardWithStory(true);
  expect(phases).toEqual(['begun', 'stopped', 'ran-out', 'seated', 'seated']);
  step('rejected', 'ana');
  step('refunded', 'ana');
  expect(board.stories).toMatchObject([
    { phase: 'rejected', holder: { token: '41' }, floor: '42', isRefunded: true },
  ]);
});

it('a seat is sold, and sold twice, when the database says so, not when a worker does', () => {
  const { board, step, books } = boardWithStory(false);
  step('booked', 'ana');
  expect(board.seats[0]?.customers).toEqual([]);
  books('ben');
  expect(board.stories).toMatchObject([{ phase: 'seated' }]);
  expect(board.stories[0]).not.toHaveProperty('floor');
  books('ben', 'ana');
  expect(board.seats[0]?.customers).toEqual(['ben', 'ana']);
  expect(board.stories).toMatchObject([{ phase: 'sold-twice' }]);
});
