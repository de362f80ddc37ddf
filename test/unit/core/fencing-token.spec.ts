import { describe, expect, it } from '@jest/globals';
import { FencingToken } from '../../../lib/core/fencing-token.ts';

const token = (value: number) => new FencingToken(value, ['a'], 'holder');

describe('FencingToken', () => {
  it('compares by number, not by text', () => {
    expect(token(9) < token(10)).toBe(true);
    expect(token(10) > token(9)).toBe(true);
    expect(token(10) >= token(10)).toBe(true);
  });

  it('prints as a decimal number', () => {
    expect(String(token(1_790_000_000_000_001))).toBe('1790000000000001');
    expect(String(token(Number.MAX_SAFE_INTEGER))).toBe('9007199254740991');
  });

  it('is in JSON what a queue or a log needs, and no more', () => {
    const text = '{"value":1790000000000001,"keys":["a"],"holder":"holder"}';
    expect(JSON.stringify(token(1_790_000_000_000_001))).toBe(text);
  });

  it('cannot be changed', () => {
    const fixed = token(5) as { value: number };
    expect(() => {
      fixed.value = 6;
    }).toThrow(TypeError);
    expect(fixed.value).toBe(5);
  });

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 2 ** 53])('cannot be %p', (value) => {
    expect(() => token(value)).toThrow(RangeError);
    expect(() => token(value)).toThrow(
      `not ${value}. A fence also takes { value, keys, holder } with a bigint or decimal text.`,
    );
  });

  it('holds the microseconds of every day until 2255', () => {
    const lastDay = Date.UTC(2255, 0, 1) * 1_000;
    expect(token(lastDay).value + 1).toBe(lastDay + 1);
  });
});
