import { describe, expect, it } from '@jest/globals';
import { judge, START, type CommittedWrite } from './commit-order.ts';

const write = (
  writer: string,
  token: number,
  readFrom: string,
  resource = 'a',
): CommittedWrite => ({
  resource,
  writer,
  token: BigInt(token),
  readFrom,
});

describe('the judge of commit orders', () => {
  it('finds nothing in a chain of rising tokens', () => {
    const history = [
      write('1', 1, START),
      write('2', 1, '1'),
      write('x', 1, START, 'b'),
      write('3', 4, '2'),
    ];
    expect(judge(history)).toEqual({ commits: 4, outOfOrder: 0, lostUpdates: 0 });
  });

  it('counts a write after a newer one', () => {
    expect(judge([write('1', 5, START), write('2', 4, '1'), write('3', 5, '2')])).toMatchObject({
      outOfOrder: 1,
      lostUpdates: 0,
    });
  });

  it('counts a write that was not derived from the one before', () => {
    expect(judge([write('1', 1, START), write('2', 2, START)])).toMatchObject({
      outOfOrder: 0,
      lostUpdates: 1,
    });
  });
});
