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
    expect([1, 2, 3, 4].map(() => grantsBefore(false, 10))).toEqual([4, 8, 16, 32]);
    expect([1, 2, 3, 4].map(() => grantsBefore(true, 10))).toEqual([32, 16, 8, 4]);
    expect([grantsBefore(false), grantsBefore(true), grantsBefore(true)]).toEqual([4, 8, 4]);
  });

  it('comes after the time of eight turns, however few grants that are, and however many turns no other process took', () => {
    expect([1, 2, 3, 4].map(() => grantsBefore(false, 250))).toEqual([4, 4, 4, 4]);
    expect([1, 2, 3, 4].map(() => grantsBefore(false, 100))).toEqual([8, 8, 8, 8]);
    expect([1, 2].map(() => grantsBefore(false, 250, 160))).toEqual([7, 7]);
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

describe('between processes that take the key again and again, one', () => {
  const released = (...holders: string[]) => {
    for (const holder of holders) turns.released(holder.replace('-', '.....'), nowMs);
    return { ahead: turns.ahead, passed: turns.passed, voices: turns.voices };
  };

  it('is next when each of the others had the key, however often, as far as their releases were released', () => {
    turns.rivals = 2;
    expect(released()).toEqual({ ahead: 2, passed: 0, voices: 0 });
    expect(released('one-1', 'one-1')).toEqual({ ahead: 1, passed: 1, voices: 2 });
    expect(released('one-2')).toEqual({ ahead: 1, passed: 1, voices: 1 });
    expect(released('two-1', 'two-1', 'two-1')).toEqual({ ahead: 0, passed: 2, voices: 3 });
    expect(released('new-1')).toEqual({ ahead: 0, passed: 3, voices: 1 });
    turns.end(nowMs);
    expect(released()).toMatchObject({ ahead: 2, passed: 0 });
  });

  it('takes no part of a message that is no holder, and keeps none', () => {
    for (const length of [65, 1_000_000]) turns.released('x'.repeat(length), nowMs);
    expect([turns.passed, turns.voices]).toEqual([0, 0]);
    for (let each = 0; each < 10_100; each += 1)
      turns.released(each.toString(36).padStart(3, '0'), nowMs);
    expect(turns.passed).toBe(10_000);
  });

  it('knows the time between the latest two releases, not how many nodes said so', () => {
    expect(turns.betweenMs).toBe(Number.POSITIVE_INFINITY);
    for (const [holder, atMs] of [
      ['a', 10],
      ['a', 11],
      ['b', 17],
      ['b', 18],
      ['c', 20],
    ] as const)
      turns.released(holder, atMs);
    expect(turns.betweenMs).toBe(3);
  });

  it('counts the turns that it lost when it was next, until it has the key', () => {
    turns.rivals = 1;
    turns.lost();
    released('one-1');
    turns.lost();
    turns.lost();
    expect(turns.lostTurns).toBe(2);
    turns.end(nowMs);
    expect(turns.lostTurns).toBe(0);
  });

  it('counts how often in a row it had the key before others were', () => {
    turns.rivals = 2;
    const counts = [['one-1'], ['two-1'], [], ['one-2', 'two-2'], ['one-3']].map((holders) => {
      released(...holders);
      turns.end(nowMs);
      return turns.overtaken;
    });
    expect(counts).toEqual([1, 2, 2, 0, 1]);
  });

  it('has shorter rows where more than three others had the key in between, so that it comes round as soon', () => {
    const grantsAfter = (others: number) => {
      for (let each = 0; each < others; each += 1)
        turns.released(String(each).padStart(3, '0'), nowMs);
      turns.end(nowMs);
      return grantsBefore(true, 2, 60);
    };
    expect([0, 3, 6, 12, 99].map(grantsAfter)).toEqual([61, 61, 31, 16, 4]);
  });
});
