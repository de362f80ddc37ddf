import { beforeEach, describe, expect, it } from '@jest/globals';
import { Turns } from '../../../../lib/core/holding/turns.ts';

let turns: Turns;
let nowMs: number;

beforeEach(() => {
  turns = new Turns();
  nowMs = 1_000;
});

/** Grants of `eachMs` until it is the turn of others, which lasts 80 ms and is taken or not; returns how many. */
function grantsBefore(isTaken: boolean, eachMs = 0, turnMs = 0): number {
  let grants = 0;
  for (; !turns.begins(nowMs, turnMs); grants += 1) {
    turns.grantsInARow += 1;
    nowMs += eachMs;
  }
  if (isTaken) turns.taken();
  nowMs += 80;
  turns.end(nowMs);
  return grants;
}

describe('the turn of other processes', () => {
  it('comes after four grants, and ends with the next one, or when another process had the key', () => {
    turns.grantsInARow = 3;
    expect([turns.begins(nowMs, 0), turns.hasSteppedBack]).toEqual([false, false]);
    turns.grantsInARow = 4;
    expect([turns.begins(nowMs, 0), turns.hasSteppedBack, turns.grantsInARow]).toEqual([
      true,
      true,
      0,
    ]);
    turns.notBeforeMs = nowMs + 20;
    turns.taken();
    expect([turns.notBeforeMs, turns.hasSteppedBack]).toEqual([0, true]);
    turns.end(nowMs);
    expect(turns.hasSteppedBack).toBe(false);
  });

  it('comes after twice as many each time that no other process took it, three times, and after fewer again when one was taken', () => {
    expect([1, 2, 3, 4].map(() => grantsBefore(false, 100))).toEqual([4, 8, 16, 32]);
    expect([1, 2, 3, 4].map(() => grantsBefore(true, 100))).toEqual([32, 16, 8, 4]);
    expect([grantsBefore(false), grantsBefore(true), grantsBefore(true)]).toEqual([4, 8, 4]);
  });

  it('comes after twice the time that it may take, where holds are short', () => {
    // From the end of the first one, when the next caller looks.
    expect([1, 2, 3].map(() => grantsBefore(true, 2, 20))).toEqual([21, 21, 21]);
    expect([1, 2, 3].map(() => grantsBefore(true, 100, 20))).toEqual([4, 4, 4]);
  });

  it('gets rarer by time after eight that no other process took', () => {
    const turnsOf = (count: number) => Array.from({ length: count }, () => grantsBefore(false, 1));
    expect(turnsOf(9)).toEqual([4, 8, 16, 32, 32, 32, 32, 32, 32]);
    expect(turnsOf(4)).toEqual([160, 320, 640, 640]);
  });

  it('takes a ninth of the time at most where no other process takes it any more, however short the holds are', () => {
    for (let each = 0; each < 20; each += 1) grantsBefore(false, 1);
    const fromMs = nowMs;
    for (let each = 0; each < 20; each += 1) grantsBefore(false, 1);
    expect((20 * 80) / (nowMs - fromMs)).toBeLessThan(1 / 8.5);
    // And comes as often as before as soon as one was taken.
    grantsBefore(true, 1);
    expect(grantsBefore(true, 1)).toBe(16);
  });
});
